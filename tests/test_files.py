"""Files are there whole or not at all."""

import os

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


def test_a_file_takes_the_place_of_the_one_before(tmp_path):
    path = tmp_path / "a.png"
    path.write_text("before")
    with whole(path) as beside:
        assert beside.suffix == ".png"
        beside.write_text("after")
    assert path.read_text() == "after"
    assert os.listdir(tmp_path) == ["a.png"]
