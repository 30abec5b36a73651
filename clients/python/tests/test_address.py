from pathlib import Path

import pytest

from longhaul import AsyncClient, Client
from longhaul._base import parsed


@pytest.mark.parametrize(
    ("address", "target", "speaks_tls"),
    [
        ("localhost:50051", "dns:///localhost:50051", False),
        ("http://127.0.0.1:1", "dns:///127.0.0.1:1", False),
        ("https://jobs.example:443/", "dns:///jobs.example:443", True),
        ("HTTPS://[::1]:50051", "dns:///[::1]:50051", True),
        ("http://jobs.example", "dns:///jobs.example:80", False),
        ("https://jobs.example/", "dns:///jobs.example:443", True),
        ("https://[::1]", "dns:///[::1]:443", True),
    ],
)
def test_an_address_says_where_and_whether_with_tls(address: str, target: str, speaks_tls: bool) -> None:
    assert parsed(address) == (target, speaks_tls)


@pytest.mark.parametrize(
    "address",
    [
        "localhost",
        "http://localhost:0",
        "http://",
        ":50051",
        "grpc://localhost:1",
        "http://a:1/path",
        "http://a:1?b",
        "http://u@a:1",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="an address is host:port"):
        Client(address)


def test_the_environment_says_what_is_not_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LONGHAUL_SERVER", "https://localhost:1")
    monkeypatch.setenv("LONGHAUL_API_KEY", "lh_environment")
    monkeypatch.setenv("LONGHAUL_CA_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(FileNotFoundError):
        Client()
    with Client(ca_file="") as client:
        assert client.metadata == (("authorization", "Bearer lh_environment"),)
    with Client("localhost:1", api_key="lh_given") as client:
        assert client.metadata == (("authorization", "Bearer lh_given"),)
    with Client("localhost:1", api_key="") as client:
        assert client.metadata == ()


def test_tls_options_are_for_tls() -> None:
    with pytest.raises(ValueError, match="https://"):
        Client("localhost:1", ca_file="ca.pem")
    with pytest.raises(ValueError, match="https://"):
        Client("localhost:1", cert_file="cert.pem", key_file="key.pem")
    with pytest.raises(ValueError, match="go together"):
        Client("https://localhost:1", cert_file="cert.pem")


def test_an_async_client_is_made_where_a_loop_runs() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        AsyncClient("localhost:1")
