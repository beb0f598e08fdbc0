"""Files are there whole or not at all."""

import os
import secrets
import stat

import pytest

from echelon.files import whole


def test_who_is_interrupted_leaves_what_was_there_before(tmp_path):
    path = tmp_path / "profile.toml"
    path.write_text("before")

    def interrupted():
        with whole(path) as beside:
            beside.write_text("half of")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["profile.toml"]


def test_a_pipe_stays_a_pipe_and_a_link_a_link(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with whole(tmp_path / "pipe") as beside:
        beside.write_text("through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with whole(tmp_path / "link") as beside:
        beside.write_text("there")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "there"


def test_a_folder_that_is_not_there_is_named_by_the_user_s_path(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none/a\.txt"), whole(tmp_path / "none" / "a.txt"):
        pass


def test_a_file_takes_the_place_of_the_one_before(tmp_path):
    path = tmp_path / "a.png"
    path.write_text("before")
    with whole(path) as beside:
        assert beside.suffix == ".png"
        beside.write_text("after")
    assert path.read_text() == "after"
    assert os.listdir(tmp_path) == ["a.png"]


def test_a_link_that_waits_under_the_name_of_a_temporary_file_is_not_followed(tmp_path, monkeypatch):
    """The name can't be foreseen; and if it could, the file must be new."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    foreseen = [tmp_path / f".{os.getpid()}-a.txt", tmp_path / ".00-a.txt"]
    for link in foreseen:
        link.symlink_to(victim)
    with whole(tmp_path / "a.txt") as beside:
        assert beside not in foreseen
        beside.write_text("new")
    monkeypatch.setattr(secrets, "token_hex", lambda size: "00")
    with pytest.raises(FileExistsError), whole(tmp_path / "a.txt"):
        pass
    assert victim.read_text() == "precious"


def test_a_new_file_obeys_the_umask_and_one_that_is_replaced_keeps_its_mode(tmp_path):
    path, before = tmp_path / "a.txt", os.umask(0o027)
    try:
        with whole(path) as beside:
            beside.write_text("new")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o600)
        with whole(path) as beside:
            beside.write_text("newer")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(before)
