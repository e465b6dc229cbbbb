"""The identity and name of a project."""

import pytest

from hermes_sessions.model.workspace import Place, normalize_remote

SAME = [
    "git@github.com:Nous/Hermes.git",
    "github.com:nous/hermes",
    "https://github.com/nous/hermes",
    "https://me:s3cret@GitHub.com/Nous/Hermes.git/",
    "https://token@github.com:443/nous//hermes.git?x=1#y",
    "ssh://git@github.com/nous/hermes.git",
    "ssh://git@github.com:22/nous/hermes",
    "git://github.com/nous/hermes/.git",
    "git+ssh://git@github.com/nous/hermes.git\n",
    "http://github.com./nous/hermes",
]


@pytest.mark.parametrize("url", SAME)
def test_one_repository_by_many_urls(url: str) -> None:
    assert normalize_remote(url) == "github.com/nous/hermes"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://git.example.org/Team/App.git", "git.example.org/Team/App"),
        ("ssh://git@git.example.org:2222/team/app", "git.example.org:2222/team/app"),
        ("git@[::1]:team/app.git", "[::1]/team/app"),
        ("https://git.example.org/team/my%20app.git", "git.example.org/team/my app"),
        ("/srv/git/app.git", "/srv/git/app"),
        ("file:///srv/git/app.git/", "/srv/git/app"),
        ("/srv/app/.git", "/srv/app"),
        ("../app.git", None),
        ("./host:app", None),
        ("app.git", None),
        ("https://github.com/", None),
        ("https://[broken/x", None),
        ("https://github.com:port/a/b", None),
        ("file://relative", None),
        ("", None),
    ],
)
def test_other_addresses(url: str, expected: str | None) -> None:
    assert normalize_remote(url) == expected


def test_no_secret_is_kept() -> None:
    for url in SAME:
        assert "s3cret" not in str(normalize_remote(url))
        assert "token" not in str(normalize_remote(url))


def test_what_identifies_a_project() -> None:
    place = Place("/srv/app/src", "/srv/app", "main", "git@host:team/app.git", "abc")
    assert place.identities() == ["remote:host/team/app", "commit:abc", "path:/srv/app"]
    assert place._replace(remote="../relative").identities()[0] == "commit:abc"
    assert Place("/srv/notes").identities() == ["path:/srv/notes"]


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (Place("/srv/copy", "/srv/copy", None, "git@host:team/app.git"), "app"),
        (Place("/srv/copy", "/srv/copy", None, "https://github.com/Nous/Hermes.git"), "Hermes"),
        (Place("/srv/copy", "/srv/copy", None, "https://host/team/my%20app"), "my app"),
        (Place("/srv/app/src", "/srv/app", None, None, "abc"), "app"),
        (Place("/srv/notes"), "notes"),
        (Place("/"), "/"),
        (Place("/" + "x" * 200), "x" * 100),
    ],
)
def test_the_name(place: Place, name: str) -> None:
    assert place.name() == name
