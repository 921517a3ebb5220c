"""Environments are made whole or not at all."""

import configparser
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import metaop as mo
from metaop.backends import catalog
from metaop.backends.isolation import environments, recipes
from metaop.cli import main

SPEC = "numpy==1.26.4"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("METAOP_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "environments"


def start(*arguments, **variables):
    return subprocess.Popen(
        [sys.executable, "-m", "metaop", "env", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )


def leftovers(home):
    return [p.name for p in home.iterdir() if not p.name.endswith(".lock")] if home.is_dir() else []


@pytest.mark.slow
def test_made_used_listed_removed(home, capsys):
    made = [start("create", SPEC), start("create", SPEC)]
    answers = [process.communicate(timeout=300) for process in made]
    assert [process.returncode for process in made] == [0, 0], answers
    assert sum("is ready" in err for _, err in answers) == 1, "two at once make one environment"
    assert leftovers(home) == [SPEC]

    backend = mo.backends.get(SPEC)
    assert backend.version() == "1.26.4"
    x = mo.Placeholder(shape=(2,), dtype="float32")
    assert mo.Session(SPEC).run(mo.exp(x), {x: np.zeros(2, "float32")}).tolist() == [1.0, 1.0]
    # A scalar stays what it is, although this NumPy takes it and a Python number for float64.
    scalar = mo.Placeholder(shape=(), dtype="float32")
    assert mo.Session(SPEC).run(mo.sigmoid(scalar), {scalar: np.zeros((), "float32")}).dtype == "float32"
    assert mo.backends()[SPEC].place == "environment"
    backend.close()
    catalog._loaded.pop(SPEC)

    assert main(["env", "list"]) == 0
    assert SPEC in capsys.readouterr().out
    assert main(["env", "remove", SPEC]) == 0
    assert leftovers(home) == []
    assert main(["env", "remove", SPEC]) == 2
    assert "there is no environment" in capsys.readouterr().err


@pytest.mark.slow
def test_made_on_first_use_where_asked_for(home, monkeypatch, capfd):
    with pytest.raises(mo.errors.MissingFrameworkError, match="METAOP_CREATE_ENVIRONMENTS=1"):
        mo.Session(SPEC)
    assert leftovers(home) == []
    monkeypatch.setenv("METAOP_CREATE_ENVIRONMENTS", "1")
    x = mo.Placeholder(shape=(2,), dtype="float32")
    assert mo.Session(SPEC).run(mo.exp(x), {x: np.zeros(2, "float32")}).tolist() == [1.0, 1.0]
    assert f"metaop: {SPEC} is ready" in capfd.readouterr().err, "what takes long is told"
    assert leftovers(home) == [SPEC]
    catalog._loaded.pop(SPEC).close()

    # An environment that was damaged since: the message says which, why, and what to do.
    package = next((home / SPEC).glob("lib/python*/site-packages/numpy/__init__.py"))
    package.write_text("raise ImportError('damaged')")
    with pytest.raises(mo.BackendError) as caught:
        mo.Session(SPEC)
    for words in (
        SPEC,
        "cannot load its framework: ImportError: damaged",
        f'metaop env remove "{SPEC}"',
        f'metaop env create "{SPEC}"',
    ):
        assert re.search(words, str(caught.value)), caught.value
    assert SPEC not in catalog._loaded


@pytest.mark.slow
def test_a_version_that_does_not_exist(home, capsys):
    assert main(["env", "create", "numpy==1.26.99"]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert "numpy==1.26.99" in last
    assert re.search(r"no such version .*, 1\.26\.4[,.]", last), "those that exist are told"
    assert leftovers(home) == []


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_half_way(home, tmp_path, sign):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = start("create", SPEC, TMPDIR=str(scratch))
    for line in process.stderr:
        if line.startswith("installing"):
            break
    time.sleep(0.3)
    process.send_signal(sign)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert environments.find("numpy", "1.26.4") is None
    if sign == signal.SIGINT:
        assert leftovers(home) == []
    # Whatever a killed process left is no environment, and goes away with the next attempt.
    with environments._locked("numpy", "1.26.4"):
        # The lock is free: nothing that was started still writes.
        assert leftovers(home) == []
        assert list(scratch.iterdir()) == []


def interpreter(folder, pip):
    """A Python whose pip is a line of shell script."""
    path = folder / "python"
    path.write_text(f'#!/bin/sh\ncase "$*" in *"-m pip"*) {pip};; esac\nexec "{sys.executable}" "$@"\n')
    path.chmod(0o755)
    return str(path)


NO_SPACE = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"


@pytest.mark.parametrize(
    ("pip", "words"),
    [
        (f"echo '{NO_SPACE}'; exit 1", "the disk is full. ERROR: Could not install"),
        ("echo half > $TMPDIR/half; kill -9 $$", "pip failed"),
        ("exit 0", "was installed but does not work: .*cannot load its framework: .*No module named 'numpy'"),
    ],
)
def test_what_fails_half_way_leaves_nothing(home, tmp_path, capsys, pip, words):
    assert main(["env", "create", SPEC, "--python", interpreter(tmp_path, pip)]) == 2
    (last,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("metaop: ")]
    assert re.search(f"numpy==1.26.4.*{words}", last), last
    assert leftovers(home) == []


def test_no_registry(home):
    unreachable = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""}
    process = start("create", SPEC, PIP_CONFIG_FILE=os.devnull, PIP_RETRIES="0", PIP_NO_CACHE_DIR="1", **unreachable)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    last = err.strip().splitlines()[-1]
    assert last.startswith("metaop: numpy==1.26.4: ")
    assert "index" in last or "no such version" in last
    assert "Traceback" not in err
    assert leftovers(home) == []


def test_a_place_that_cannot_be_written(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("METAOP_HOME", str(tmp_path / "file"))
    assert main(["env", "create", SPEC]) == 2
    assert "METAOP_HOME" in capsys.readouterr().err


def test_missing_interpreter(home, monkeypatch, capsys):
    monkeypatch.setattr(environments, "_candidates", lambda version: iter(()))
    assert main(["env", "create", "mxnet==1.6.0"]) == 2
    assert "needs Python 3.7" in capsys.readouterr().err
    for python, words in (
        ("2.9", "needs Python 2.9"),
        ("banana", "takes a version such as 3.7, or the path of an interpreter; got 'banana'"),
        ("/no/such/python", "/no/such/python is not the path of a Python"),
        (os.devnull, "is not the path of a Python that starts"),
    ):
        assert main(["env", "create", "mxnet==1.6.0", "--python", python]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("mxnet", "framework==version"),
        ("mxnet==0.1", "no recipe for mxnet==0.1"),
        ("mxnet==../../x", "not a version"),
        ("nothing==1", "unknown backend"),
        ("torch==1.7.1@cuda:0", "framework==version"),
        ("isolated:torch==1.7.1", "framework==version"),
        ("mxnet=1.6.0", "framework==version"),
        ("", "framework==version"),
    ],
)
def test_bad_names(home, capsys, spec, words):
    assert main(["env", "create", spec]) == 2
    assert words in capsys.readouterr().err


def test_both_remedies_are_named(home):
    with pytest.raises(mo.errors.MissingFrameworkError) as caught:
        mo.Session("torch==1.7.1")
    assert 'pip install "torch==1.7.1"' in str(caught.value)
    assert 'metaop env create "torch==1.7.1"' in str(caught.value)


def test_every_recipe_is_found_by_its_own_bounds():
    for recipe in recipes.RECIPES:
        assert recipes.find_recipe(recipe.framework, recipe.least) is recipe
        assert recipe.framework in {e.environment for e in catalog.CATALOG.values()}
    assert recipes.find_recipe("mxnet", "1.6.0").pythons[0] == "3.7"
    assert recipes.release("2.13.0+cpu") == (2, 13, 0)


def test_the_extra_for_mxnet_can_be_installed():
    """In process, MXNet needs a NumPy that metaop itself must take."""
    config = configparser.ConfigParser()
    config.read(Path(__file__).parents[2] / "setup.cfg")
    (least,) = re.findall(r"^numpy>=(.*)$", config["options"]["install_requires"], re.MULTILINE)
    (below,) = re.findall(r"^numpy<(.*)$", config["options.extras_require"]["mxnet"], re.MULTILINE)
    assert recipes.release(least) < recipes.release(below)


def test_versions_installed_here_run_here():
    installed = catalog.installed_version(catalog.CATALOG["numpy"])
    assert mo.backends.get(f"numpy=={installed}").tensor_kind == "numpy"
    assert catalog.same_version("2.13.0", "2.13.0+cpu")
    assert not catalog.same_version("2.13", "2.13.0")
