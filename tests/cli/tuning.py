"""Which plan a call takes: by size, by hosts, by a table that rank 0 gives to all."""

import json

from jobs import Job

import case
from case import Case

TWO_HOSTS = "DIJI_HOST_ID=$((DIJI_RANK / 2)) "


class Tuning(Case):
    def rows(self, ranks, words, before="", **environment):
        text = f'{before}exec "$DIJI" bench collective {words} --seconds 0.01 --check --json'
        job = Job(self, ranks, ["sh", "-c", text], DIJI=case.OPTIONS.diji, **environment)
        job.end(0, seconds=60)
        rows = json.loads(job.out())["rows"]
        self.assertEqual({row["wrong"] for row in rows}, {0})
        for row in rows:
            self.assertRegex(row["plan"], rf"^{row['algorithm']}/\d+-[0-9a-f]{{8}}$")
        return rows

    def plans(self, *arguments, **environment):
        return [row["plan"].partition("-")[0] for row in self.rows(*arguments, **environment)]

    def test_plans_by_size_and_hosts(self):
        self.assertEqual(self.plans(4, "all_reduce --sizes 4K:8K"), ["exchange/1", "direct/1"])
        self.assertEqual(self.plans(4, "all_reduce --sizes 4K:8K", TWO_HOSTS), ["hierarchical/1"] * 2)
        mingled = self.plans(4, "all_reduce --sizes 4K:8K", "DIJI_HOST_ID=$((DIJI_RANK % 2)) ")
        self.assertNotIn("hierarchical/1", mingled)
        self.assertEqual(self.plans(2, "broadcast --bytes 4K --algorithm chain/slices=3"), ["chain/3"])

    def test_a_table_of_rank_0(self):
        table = "all_reduce: <=4K ring/slices=2; <=8K hierarchical; auto\nbroadcast narrow hosts=2..: binomial_tree"
        words = "all_reduce --sizes 4K:16K"
        self.assertEqual(self.plans(3, words, DIJI_TUNING=table), ["ring/2", "direct/1", "direct/1"])
        differ = '[ "$DIJI_RANK" = 0 ] || export DIJI_TUNING="all_reduce: direct"; '
        for before in (differ, ""):  # what other ranks say does not count
            self.assertEqual(self.plans(2, "all_reduce --bytes 4K", before, DIJI_TUNING=table), ["ring/2"])
        self.assertEqual(self.plans(2, "all_reduce --bytes 4K --exact", DIJI_TUNING=table), ["direct/1"])
        self.assertEqual(
            self.plans(4, "broadcast --bytes 4K --dtype bf16", TWO_HOSTS, DIJI_TUNING=table), ["binomial_tree/1"]
        )
        file = self.write("plans.txt", table.encode())
        self.assertEqual(self.plans(2, "all_reduce --bytes 4K", DIJI_TUNING=f"@{file}"), ["ring/2"])
        words = ["bench", "collective", "all_reduce", "--simulate", "world=3", "--bytes", "4K"]
        rows = self.document(*words, DIJI_TUNING=table)
        self.assertEqual([row["algorithm"] for row in rows["rows"] if row["chosen"]], ["ring"])

    def test_a_table_is_refused_on_all_ranks(self):
        file = self.write("plans.txt", b"all_reduce: direct\nbroadcast: <=4K chian\n")
        for table, code, part in (
            ("all_redcue: direct", 2, "DIJI_TUNING:1:1: 'all_redcue' is no operation"),
            ("all_reduce: <=4K direkt", 2, "DIJI_TUNING:1:18: all_reduce has no algorithm direkt"),
            ("all_reduce: <=4K direkt", 2, "(did you mean direct?)"),
            (f"@{file}", 3, f"{file}:2:17: broadcast has no algorithm chian"),
            (f"@{file}.absent", 3, "No such file"),
        ):
            with self.subTest(table):
                words = [case.OPTIONS.diji, "bench", "collective", "all_reduce", "--bytes", "8"]
                err = Job(self, 3, words, DIJI_TUNING=table).end(code)
                self.assertEqual(err.count("diji: rank 0: "), 3, err)
                self.assertEqual(err.count(part), 3, err)

    def test_tune_finds_what_is_better(self):
        slow = {"DIJI_TUNING": "all_reduce: ring/slices=64"}  # each of 64 K in 128 pieces
        words = ["tune", "collective", "all_reduce", "--sizes", "64K:64K", "--seconds", "0.05", "--world-size", "2"]
        document = self.document(*words, "--save", "plans.txt", **slow)
        row = document["rows"][0]
        self.assertEqual((row["operation"], row["size_bytes"], row["dtype"]), ("all_reduce", 65536, "f32"))
        self.assertTrue(row["changed"])
        self.assertTrue(row["before"]["plan"].startswith("ring/64-"), row)
        self.assertFalse(row["after"]["plan"].startswith("ring/64-"), row)
        self.assertGreater(row["before"]["time_us"], row["after"]["time_us"])
        self.assertEqual(document["machine"]["ranks"], 2)
        text = self.diji(*words, "--save", "plans.txt", **slow)
        self.assertRegex(text.stdout, r"ring/64-[0-9a-f]{8} -> \w+/\d+-[0-9a-f]{8}")
        self.assertIn("DIJI_TUNING is set", text.stderr)

    def test_later_calls_take_the_tuned_file(self):
        words = ["tune", "collective", "barrier", "--seconds", "0.01"]
        job = Job(self, 2, [case.OPTIONS.diji, *words, "--json"])  # under a launcher too
        job.end(0, seconds=60)
        document = json.loads(job.out())
        self.assertFalse(document["rows"][0]["changed"])
        self.assertEqual(document["tuning"], "")
        file = self.here / document["file"]
        self.assertEqual(file.parent, self.here / "cache" / "collective")
        self.assertIn("DIJI_TUNING=off", file.read_text())
        file.write_text(file.read_text() + "all_reduce world=3: ring/slices=2\n")
        self.assertEqual(self.plans(3, "all_reduce --bytes 4K"), ["ring/2"])
        self.assertEqual(self.plans(2, "all_reduce --bytes 4K"), ["exchange/1"])
        self.assertEqual(self.plans(3, "all_reduce --bytes 4K", DIJI_TUNING="off"), ["exchange/1"])
        job = Job(self, 2, [case.OPTIONS.diji, *words])
        job.end(0, seconds=60)
        self.assertIn("all_reduce world=3: ring/slices=2", file.read_text())
        file.write_text("all_reduce: rung\n")
        job = Job(self, 2, [case.OPTIONS.diji, "bench", "collective", "all_reduce", "--bytes", "8", "--iters", "5"])
        self.assertIn("all_reduce has no algorithm rung", job.end(0))
        file.unlink()

    def test_tune_refused(self):
        for words, part in (
            (["gemm"], "'gemm' cannot be tuned; there is collective"),
            (["colective"], "(did you mean 'collective'?)"),
            (["collective", "all_redcue"], "(did you mean 'all_reduce'?)"),
            (["collective", "--sizes", "8:4"], "is not FROM:TO"),
            (["collective", "--dtype", "f33"], "there is no 'f33'"),
            (["collective", "--world-size", "1"], "--world-size"),
        ):
            with self.subTest(words):
                self.refused("tune", *words, code=2, error="usage", says=[part])
        self.refused("tune", "collective", code=2, error="usage", says=["--save FILE"], DIJI_CACHE_DIR="off")
