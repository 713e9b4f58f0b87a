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
