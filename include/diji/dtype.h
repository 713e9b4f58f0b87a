/* The element types, as all public headers number them. C99. */
#ifndef DIJI_DTYPE_H
#define DIJI_DTYPE_H

typedef enum diji_dtype {
  DIJI_F64,
  DIJI_F32,
  DIJI_F16,
  DIJI_BF16,
  DIJI_I8,
  DIJI_U8,
  DIJI_I16,
  DIJI_U16,
  DIJI_I32,
  DIJI_U32,
  DIJI_I64,
  DIJI_U64,
  DIJI_BOOL,
  /* The 8-bit floats of the OCP specification: only collectives know them. */
  DIJI_F8E4M3,
  DIJI_F8E5M2
} diji_dtype;

#endif /* DIJI_DTYPE_H */
