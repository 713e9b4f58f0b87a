"""The extension, as bindings.cpp defines it."""

from typing import Any

__version__: str

class Model:
    def run(self, inputs: dict[Any, Any], dlpack: bool, /) -> dict[str, Any]: ...
    def specs(self, of_outputs: bool, /) -> list[tuple[str, str | None, tuple[int | str, ...] | None]]: ...
    def coverage(self, /) -> str: ...
    def device(self, /) -> str: ...
    def close(self, /) -> None: ...

def load(
    path: str,
    device: str,
    threads: int,
    dims: dict[str, int],
    constants: dict[Any, Any],
    op_libraries: list[str],
    memory_limit_bytes: int,
    /,
) -> Model: ...
def devices() -> list[tuple[str, str, str, int, str, str, str]]: ...
