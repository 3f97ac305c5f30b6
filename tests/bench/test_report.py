import json

import pytest

from rtc_server.bench.report import Report


def test_json_is_one_object_a_line_with_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("latency", [("m2e_p50_ms", "m2e")], json_lines=True)
    report.say("not for programs")
    report.add("ours", 1, {"m2e_p50_ms": 123.4, "lost": 0})
    report.add_ratios("aiortc", {"m2e_p50_ms": 2.0})
    report.add_carried("ours", 40)
    report.finish()
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"bench": "latency", "server": "ours", "run": 1, "m2e_p50_ms": 123.4, "lost": 0},
        {"bench": "latency", "server": "aiortc", "run": "ratio", "m2e_p50_ms": 2.0},
        {"bench": "latency", "server": "ours", "run": "carried", "calls": 40},
    ]


def test_the_table_shows_the_chosen_figures(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("latency", [("m2e_p50_ms", "m2e"), ("rss_mb", "rss")], json_lines=False)
    report.add("ours", 1, {"m2e_p50_ms": 123.44, "rss_mb": None})
    report.add("ours", "best", {"m2e_p50_ms": 123.44, "rss_mb": None})
    report.finish()
    table = capsys.readouterr().out
    assert "m2e" in table and "best" in table and table.count("123.4") == 2 and "-" in table
