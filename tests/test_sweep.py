"""Sweeps: every job runs, is recorded and stands in the table; a restart repeats nothing."""

import atexit
import json
import os
import signal
import subprocess
import sys

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from data.errors import InputError
from engine import callbacks, sweep
from tests import sweep_app
from tests.runs import ROOT, SMALL, composed, small_files

SEARCH = ["sweep=optuna", "model.optimizer.lr=interval(1e-4,1e-2)", "seed=1"]


@pytest.fixture
def start(tmp_path, monkeypatch, capsys):
    """Run a sweep in this process; returns the exit status and the jobs by their swept override."""

    def run(*overrides, script="train", function=sweep_app.main, **plans):
        main = hydra.main(version_base="1.3", config_path=str(ROOT / "conf"), config_name=script)(function.__wrapped__)
        for name, plan in plans.items():
            monkeypatch.setenv(name.upper(), plan)
        GlobalHydra.instance().clear()
        monkeypatch.setattr(sys, "argv", ["train.py", "-m", *overrides, f"hydra.sweep.dir={tmp_path}/sweep"])
        status = 0
        try:
            main()
        except SystemExit as stop:
            status = stop.code
            atexit.unregister(sweep._report_at_exit)
        return status, {" ".join(job["overrides"]): job for job in sweep.records(tmp_path / "sweep")}

    return run


def calls(job):
    return (job["folder"] / "calls").read_text().splitlines()


def test_a_failed_job_stops_and_hides_no_other(start, capsys, tmp_path):
    status, jobs = start("seed=1,2,3,4", seed_1="crash", seed_3="wrong")
    assert status == 1
    assert [job["status"] for job in jobs.values()] == ["failed", "finished", "failed", "finished"]
    assert jobs["seed=3"]["reason"] == "nowhere.json: no such file; give another"
    log = (jobs["seed=1"]["folder"] / "error.log").read_text()
    assert "Traceback" in log and "ZeroDivisionError: a fault of ours" in log and "S3CRET" not in log
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err and "4 jobs: 2 failed, 2 finished" in out and "nowhere.json" in out
    table = (tmp_path / "sweep" / "sweep.md").read_text()
    assert all(f"| {n} | seed={n + 1} |" in table for n in range(4)) and "S3CRET" not in table
    written = json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    assert written["counts"] == {"failed": 2, "finished": 2} and len(written["jobs"]) == 4


def test_a_restart_runs_what_did_not_finish_and_nothing_else(start):
    start("seed=1,2,3", seed_2="crash")
    status, jobs = start("seed=1,2,3", seed_2="")
    assert status == 0 and all(job["status"] == "finished" for job in jobs.values())
    assert [len(calls(job)) for job in jobs.values()] == [1, 2, 1]
    status, jobs = start("seed=3,7,1")  # other values: what is known is known, what is new takes a free folder
    assert status == 0 and [len(calls(job)) for job in jobs.values()] == [1, 2, 1, 1]
    assert jobs["seed=7"]["folder"].name == "1-1"


def test_an_interrupted_sweep_reports_and_goes_on(start, tmp_path, monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(sweep.atexit, "register", lambda *arguments: seen.append(arguments))
    status, jobs = start("seed=1,2,3", seed_2="interrupt")
    assert status == 130 and [job["status"] for job in jobs.values()] == ["finished", "stopped"]
    function, *arguments = seen[0]
    function(*arguments)
    out, err = capsys.readouterr()
    assert "1 finished, 1 stopped" in out and f"hydra.sweep.dir={tmp_path}/sweep" in err
    status, jobs = start("seed=1,2,3", seed_2="")
    assert status == 0 and [len(calls(job)) for job in jobs.values()] == [1, 2, 1]


def test_what_needs_no_training_is_skipped(start):
    status, jobs = start("seed=1,2", seed_1="skip")
    assert status == 0 and jobs["seed=1"]["status"] == "skipped"


def test_experiments_by_pattern(start):
    status, jobs = start("experiment=glob(recipeqa/impatient*,exclude=*cloze)")
    names = sorted(path.stem for path in (ROOT / "conf" / "experiment" / "recipeqa").glob("impatient*"))
    wanted = [f"experiment=recipeqa/{name}" for name in names if not name.endswith("cloze")]
    assert status == 0 and list(jobs) == wanted and 0 < len(wanted) < len(names)


def test_a_pattern_that_matches_nothing(start, capsys):
    status, jobs = start("experiment=glob(nothing/*)")
    assert status == 1 and not jobs and "matches none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["seed=1,2", "output_dir=x"], "error: output_dir: each job of a sweep has its own"),
        (["model.optimizer.lr=interval(1,2)"], "an interval has no end without a search; add sweep=optuna"),
        (["sweep=optuna", "model.optimizer.lr=interval(2,1)"], "the interval starts at 2.0, above its end 1.0"),
        (["sweep=optuna", "sweep.trials=0"], "error: sweep.trials=0: must be a whole number of at least 1"),
        (["sweep=optuna", "sweep.trials=x"], "error: sweep.trials=x: must be a whole number of at least 1"),
        (["sweep=optuna", "sweep.parallel=0"], "error: sweep.parallel=0: must be a whole number of at least 1"),
        (["sweep=optuna", "callbacks.best.mode=most"], "error: callbacks.best.mode=most: choose max or min"),
        (["seed=range(0)"], "the sweep has no jobs"),
    ],
)
def test_what_makes_no_sense_in_a_sweep_is_refused_in_one_line(start, capsys, overrides, message):
    status, jobs = start(*overrides)
    out = "".join(capsys.readouterr())
    assert status == 1 and not jobs and message in out and "Traceback" not in out


@pytest.mark.parametrize("content", ["{", "[]", '{"overrides": 3}', '{"overrides": []}'])
def test_a_damaged_record_is_named_before_the_first_job(start, capsys, tmp_path, content):
    place = tmp_path / "sweep" / "0" / "job.json"
    place.parent.mkdir(parents=True)
    place.write_text(content)
    with pytest.raises(InputError, match="not the record of a job"):
        start("seed=1,2")
    assert f"error: {place}: not the record of a job" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made(start, capsys, tmp_path):
    (tmp_path / "sweep").touch()
    assert start("seed=1,2") == (1, {}) and "cannot be made" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("then", "message"),
    [
        (["seed=choice(1,3)"], "chooses among other values"),
        (["seed=choice(1,2)", "callbacks.best.mode=min"], "its study does not minimize"),
    ],
)
def test_a_study_that_was_of_something_else_is_refused(start, capsys, then, message):
    assert start("sweep=optuna", "sweep.trials=1", "seed=choice(1,2)")[0] == 0
    status, _ = start("sweep=optuna", "sweep.trials=2", *then)
    err = capsys.readouterr().err
    assert status == 1 and message in err and "Traceback" not in err


def test_a_damaged_study_is_refused(start, capsys, tmp_path):
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "study.db").write_text("no database, but more than a few bytes of text " * 9)
    status, _ = start("sweep=optuna", "sweep.trials=1", "seed=choice(1,2)")
    err = capsys.readouterr().err
    assert status == 1 and "study.db: holds no study" in err and "Traceback" not in err


def test_the_same_job_at_once_is_run_once(tmp_path):
    """The second waits for the first's lock, and finds it finished."""
    command = [sys.executable, "-m", "tests.sweep_app", "-m", "seed=1", f"hydra.sweep.dir={tmp_path}"]
    both = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60) and process.returncode for process in both] == [0, 0]
    assert len((tmp_path / "0" / "calls").read_text().splitlines()) == 1


def test_secrets_of_the_command_line_stay_out_of_the_folder(start, tmp_path):
    pytest.importorskip("optuna")
    start(*SEARCH, "sweep.trials=1", "+logger.csv.api_key=S3CRET-1")
    for path in (tmp_path / "sweep").rglob("*"):
        assert path.is_dir() or b"S3CRET" not in path.read_bytes(), path


def test_a_study_counts_on_after_a_kill_and_its_best_is_an_experiment(start, tmp_path, capsys):
    optuna = pytest.importorskip("optuna", reason="needs the extra `sweeps`")
    folder = tmp_path / "sweep"
    status, jobs = start(*SEARCH, "sweep.trials=3")
    assert status == 0 and len(jobs) == 3
    # As a kill within the fourth trial leaves it: asked, begun, never told.
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{folder}/study.db")
    trial = study.ask()
    lr = trial.suggest_float("model.optimizer.lr", 1e-4, 1e-2)
    status, jobs = start(*SEARCH, "sweep.trials=5")
    assert status == 0 and len(jobs) == 5 and all(len(calls(job)) == 1 for job in jobs.values())
    assert f"model.optimizer.lr={lr} seed=1" in jobs, "the trial that was killed is asked again"
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{folder}/study.db")
    assert sum(t.state == optuna.trial.TrialState.COMPLETE for t in study.get_trials()) == 5
    assert len({t.params["model.optimizer.lr"] for t in study.get_trials()}) == 5, "no seed draws its trials twice"
    best = max(jobs.values(), key=lambda job: job["score"])
    assert f"python train.py --config-dir {folder} experiment=best" in capsys.readouterr().out.replace("\n", "")
    cfg = composed_with(folder, ["experiment=best"])
    assert f"model.optimizer.lr={cfg.model.optimizer.lr}" in best["overrides"] and cfg.seed == 1
    assert study.best_value == best["score"]


def composed_with(folder, overrides):
    return composed("train", [f"hydra.searchpath=[file://{folder}]", *overrides])


def test_a_failed_trial_is_told_as_failed(start, tmp_path):
    optuna = pytest.importorskip("optuna", reason="needs the extra `sweeps`")
    search = ["sweep=optuna", "seed=choice(1,2)", "sweep.trials=6", "sweep.seed=4"]
    status, jobs = start(*search, seed_2="wrong")
    assert status == 1 and {job["status"] for job in jobs.values()} == {"finished", "failed"}
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{tmp_path}/sweep/study.db")
    states = {(trial.params["seed"], trial.state.name) for trial in study.get_trials()}
    assert states == {(1, "COMPLETE"), (2, "FAIL")}
    assert len(calls(jobs["seed=1"])) == 1, "a configuration that was drawn again is returned from disk"


@pytest.mark.parametrize(
    "overrides",
    [
        ["seed=7", "compile=true", "model.net.layers=1"],
        ["data=wikibooks/retrieval", "model=im2recipe", "loss@model.loss.ranking=info_nce", "model.optimizer.lr=0.01"],
        ["experiment=recipe1m/strong", "model.loss.weight=0.5", "trainer.max_epochs=7", "logger=[csv,wandb]"],
        ["model.net.dropout=0.5", "+trainer.max_steps=9", "cache='a b'", "data.val_fraction=0.25"],
        ["experiment=recipeqa/impatient_reader_text", "data=recipeqa/visual_cloze", "features=released"],
    ],
)
def test_the_best_experiment_composes_to_what_the_job_was(overrides, tmp_path):
    sources = [{"path": str(ROOT / "conf"), "schema": "file", "provider": "main"}]
    settings = {
        "sweeper": {"direction": "minimize"},
        "runtime": {"config_sources": sources},
        "job": {"config_name": "train"},
    }
    job = {"overrides": overrides, "status": "finished", "score": 1.0, "metric": "x", "folder": tmp_path / "0"}
    worse = {**job, "overrides": [], "score": 2.0}
    assert sweep.write_best(tmp_path, OmegaConf.create({"hydra": settings}), [worse, job])
    ours, wanted = composed_with(tmp_path, ["experiment=best"]), composed("train", overrides)
    for cfg in (ours, wanted):
        cfg.output_dir = "out"
    assert ours == wanted


def test_what_an_experiment_cannot_say_stands_in_the_command(tmp_path):
    job = {"overrides": ["~callbacks.progress", "sanity=false", "seed=3"], "status": "finished", "score": 1.0}
    settings = {
        "sweeper": {"direction": "minimize"},
        "runtime": {"config_sources": [{"path": str(ROOT / "conf"), "schema": "file", "provider": "main"}]},
        "job": {"config_name": "train"},
    }
    config = OmegaConf.create({"hydra": settings})
    command = sweep.write_best(tmp_path, config, [{**job, "metric": None, "folder": tmp_path / "0"}])
    assert command and command.endswith("experiment=best '~callbacks.progress' sanity=false")


def test_the_command_of_the_wandb_sweep_composes():
    """What an agent would call, by wandb's own functions; the search itself needs a server."""
    from wandb.sdk.launch.sweeps import utils

    search = utils.load_sweep_config(str(ROOT / "docs" / "wandb_sweep.yaml"))
    assert search and search["method"] in ("bayes", "grid", "random") and (ROOT / search["program"]).is_file()
    assert search["metric"] == {"name": "val/accuracy", "goal": "maximize"}
    values = {}
    for key, space in search["parameters"].items():
        assert set(space) in ({"distribution", "min", "max"}, {"values"}, {"value"}), key
        values[key] = {"value": space["value"] if "value" in space else space.get("values", [space.get("min")])[0]}
    arguments = utils.create_sweep_command_args({"args": values})["args_no_hyphens"]
    fixed = [part for part in search["command"] if not part.startswith("${")]
    cfg = composed("train", [*fixed, *arguments])
    assert cfg.model.optimizer.lr == 1e-4 and cfg.model.net.hidden_size == 128 and not cfg.logger.wandb.offline
    best = cfg.callbacks.best
    assert (best.monitor, f"{best.mode}imize") == (search["metric"]["name"], search["metric"]["goal"])


@pytest.mark.slow
def test_an_interrupted_job_goes_on_to_the_bits_of_one_that_was_not(start, tmp_path, monkeypatch):
    import torch

    import train

    settings = [*small_files(tmp_path), *SMALL, "seed=1,2"]
    original = callbacks.SaveLast.on_train_batch_end
    stops = [7]

    def on_train_batch_end(self, trainer, *arguments):
        if trainer.global_step in stops:
            stops.clear()
            os.kill(os.getpid(), signal.SIGTERM)
        original(self, trainer, *arguments)

    monkeypatch.setattr(callbacks.SaveLast, "on_train_batch_end", on_train_batch_end)
    status, jobs = start(*settings, function=train.main)
    (stopped,) = jobs.values()
    assert status == 128 + signal.SIGTERM and stopped["status"] == "stopped"
    status, jobs = start(*settings, function=train.main)
    assert status == 0 and [job["status"] for job in jobs.values()] == ["finished", "finished"]
    (tmp_path / "sweep").rename(tmp_path / "resumed")
    _, jobs = start(*settings, function=train.main)

    def weights(folder):
        return torch.load(folder / "0" / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]

    ours, wanted = weights(tmp_path / "resumed"), weights(tmp_path / "sweep")
    assert all(torch.equal(ours[key], wanted[key]) for key in wanted)
    predictions = [(tmp_path / name / "0" / "predictions.jsonl").read_text() for name in ("resumed", "sweep")]
    assert predictions[0] == predictions[1]


@pytest.mark.slow
def test_evaluations_are_swept_too(start, tmp_path, capsys):
    import evaluate

    files = small_files(tmp_path)
    status, jobs = start(
        "model=glob(sanity/*choice*)", *files, "logger=[]", "sanity=false", script="evaluate", function=evaluate.main
    )
    assert status == 0 and len(jobs) > 3 and all(0 <= job["score"] <= 1 for job in jobs.values())
    assert all((job["folder"] / "metrics.json").is_file() for job in jobs.values())
