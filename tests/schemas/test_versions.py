import pytest

from schemas.versions import (
    JOBSET_VERSIONS,
    KUEUE_VERSIONS,
    UnknownVersionError,
    minor_of,
    resolve,
    resolve_kubernetes,
)


@pytest.mark.parametrize("release", KUEUE_VERSIONS)
def test_a_kueue_release_resolves_to_itself_and_prefers_v1beta2(release):
    assert resolve("kueue", release.version) is release
    assert release.api_version == release.served[0] == "kueue.x-k8s.io/v1beta2"


@pytest.mark.parametrize("release", JOBSET_VERSIONS)
def test_a_jobset_release_resolves_to_itself(release):
    assert resolve("jobset", "v" + release.version) is release


def test_a_patch_release_uses_the_schema_of_its_minor():
    assert resolve("kueue", "0.17.9").version == "0.17.0"
    assert resolve("jobset", "0.11").version == "0.11.1"


@pytest.mark.parametrize(
    ("component", "version", "says"),
    [
        ("kueue", "0.14.4", "does not serve v1beta2"),
        ("kueue", "0.99.0", "known: 0.15.0"),
        ("jobset", "0.9.0", "known: 0.8.0"),
        ("jobset", "latest", "is not a version"),
    ],
)
def test_an_unknown_version_names_what_is_known(component, version, says):
    with pytest.raises(UnknownVersionError, match=says):
        resolve(component, version)


def test_a_gke_version_resolves_to_its_kubernetes_minor():
    assert resolve_kubernetes("1.33.4-gke.1245000") == "1.33"
    assert minor_of("v1.36") == "1.36"
    with pytest.raises(UnknownVersionError, match="no vendored schema"):
        resolve_kubernetes("1.22.0")
    with pytest.raises(UnknownVersionError, match="is not a Kubernetes"):
        resolve_kubernetes("regular")
