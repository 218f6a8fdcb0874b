"""The doctor: right about this machine, and a fix and exit code 1 where something needed is broken."""

import json
import sys
from importlib import metadata

from bires.cli import main
from bires.envs.tasks import SUITE
from bires.tools import doctor, video
from bires.tools.diagnoses import Diagnosis, examined, line


def findings(check) -> dict[str, Diagnosis]:
    return {found.what: found for found in examined(check)}


def test_this_machine_can_train(capsys):
    assert main(["doctor", "--json"]) == 0
    found = {one["what"]: one for one in json.loads(capsys.readouterr().out)}
    for needed in ("python", "packages", "simulator", "cores", "memory", "disk for runs"):
        assert found[needed]["state"] in ("ok", "advice"), found[needed]
    assert f"mujoco {metadata.version('mujoco')}" in found["packages"]["found"]
    assert {"GPU", "GL", "Atari", "bires[video]"} <= set(found)
    for one in found.values():
        assert one["fix"] or one["state"] in ("ok", "absent"), one


def test_a_wrong_setting_is_not_called_a_defect(monkeypatch):
    monkeypatch.setenv("BIRES_CORES", "many")
    (found,) = examined(doctor.cores)
    assert (found.state, found.fix) == ("broken", "")
    assert found.found.startswith("BIRES_CORES is set to 'many'; accepted: ")


def test_what_is_broken_is_marked_and_changes_the_exit_code(monkeypatch, capsys):
    def wheel():
        yield Diagnosis("wheel", "broken", "it came off", "screw it on")

    def bell():
        yield Diagnosis("bell", "absent", "there is none", "buy one")

    def brake():
        yield Diagnosis("brake", "ok", str(1 / 0))

    monkeypatch.setattr(doctor, "CHECKS", (wheel, bell))
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "FAIL  wheel" in shown
    assert "→ screw it on" in shown
    assert "Training does not work here: wheel." in shown
    monkeypatch.setattr(doctor, "CHECKS", (bell,))
    assert main(["doctor"]) == 0
    monkeypatch.setattr(doctor, "CHECKS", (brake,))
    assert main(["doctor"]) == 1
    assert "division by zero" in capsys.readouterr().out


def test_a_version_out_of_bounds_is_reported(monkeypatch):
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "4.0.0" if name == "mujoco" else real(name))
    found = findings(doctor.versions)["packages"]
    assert found.state == "broken"
    assert found.found.startswith("mujoco 4.0.0, wanted ")
    assert "fresh environment" in found.fix


def test_training_works_without_dmcontrol(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "dm_control", None)
    monkeypatch.setattr(doctor, "CHECKS", (doctor.simulator,))
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "MuJoCo steps" in shown
    assert f"pip install --no-deps {SUITE}" in shown


def test_settings_that_slow_down_are_named(monkeypatch):
    for name in (*doctor.THREADS, *doctor.JAX_SETTINGS):
        monkeypatch.delenv(name, raising=False)
    assert findings(doctor.cores)["thread and JAX settings"].state == "ok"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = findings(doctor.cores)["thread and JAX settings"]
    assert (found.state, found.found) == ("advice", "OMP_NUM_THREADS=1")
    assert found.fix.startswith("unset OMP_NUM_THREADS")


def test_a_quota_below_the_cores_is_reported(tmp_path, monkeypatch):
    for text, quota in (("max 100000", None), ("150000 100000", 1.5), ("nonsense", None)):
        (tmp_path / "cpu.max").write_text(text)
        assert doctor.cpu_quota(tmp_path / "cpu.max") == quota
    monkeypatch.setattr(doctor, "cpu_quota", lambda: 0.5)
    found = findings(doctor.cores)["cores"]
    assert found.state == "advice"
    assert "taskset -c 0-0" in found.fix


def test_a_place_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    found = doctor.disk("runs", tmp_path / "file", "cd")
    assert (found.state, found.fix) == ("broken", "cd")
    assert doctor.disk("runs", tmp_path / "new", "cd").state != "broken"


def test_no_gl_library_is_no_failure(monkeypatch):
    monkeypatch.setattr(video, "chosen_backends", lambda: ("nonsense",))
    (found,) = examined(doctor.pictures)
    assert found.state == "absent"
    assert found.found.startswith("nonsense: ")
    assert "apt install libegl1" in found.fix


def test_a_gpu_that_processes_cannot_share_is_noticed(monkeypatch):
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    monkeypatch.setattr("bires.machine.mps.environment", dict)
    assert doctor.sharing().state == "ok"
    monkeypatch.setattr("bires.machine.mps.environment", lambda: None)
    finding = doctor.sharing()
    assert finding.state == "advice"
    assert "nvidia-cuda-mps-control" in finding.fix


def test_what_was_found_is_broken_between_words_and_what_to_type_is_not():
    one = Diagnosis(
        "packages", "advice", "dm-control 1.0.50, gymnasium 1.4.0, jax 0.10.2", "pip install 'bires[video]'"
    )
    lines = line(one, 60).splitlines()
    assert lines[0] == f"look  {'packages':28}dm-control 1.0.50,"
    assert lines[1].strip() == "gymnasium 1.4.0, jax"
    assert lines[-1].strip() == "→ pip install 'bires[video]'"
    assert len(line(one).splitlines()) == 2
