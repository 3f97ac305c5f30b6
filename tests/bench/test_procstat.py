import os
from pathlib import Path

from rtc_server.bench.procstat import read_usage


def write_process(proc: Path, pid: int, ticks: int, pages: int, children: str = "") -> None:
    task = proc / str(pid) / "task" / str(pid)
    task.mkdir(parents=True)
    fields = ["S", *["0"] * 10, str(ticks), "0", *["0"] * 8, str(pages), *["0"] * 10]
    (proc / str(pid) / "stat").write_text(f"{pid} (a ) name (b)) {' '.join(fields)}")
    (task / "children").write_text(children)


def test_children_count_and_names_with_brackets_do_not_confuse(tmp_path: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    pages_per_mb = 2**20 // os.sysconf("SC_PAGE_SIZE")
    write_process(tmp_path, 10, 3 * ticks, 5 * pages_per_mb, children="11 12 ")
    write_process(tmp_path, 11, ticks, pages_per_mb)
    assert read_usage(10, tmp_path) == (4.0, 6.0)


def test_a_process_that_is_gone_has_no_usage(tmp_path: Path) -> None:
    assert read_usage(10, tmp_path) is None
