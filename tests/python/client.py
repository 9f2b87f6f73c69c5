"""Checks the official Python client: typed and dynamic access, watches, custom objects.

Runs in the namespace of its first argument; exits with an error if the server deviates.
"""

import sys
import threading

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException

PATIENCE_SECONDS = 60


def refused(status, call, *args, **kwargs):
    """Asserts that a call fails with this status code."""
    try:
        call(*args, **kwargs)
    except ApiException as problem:
        assert problem.status == status, (status, problem.status, problem.body)
        return problem
    raise AssertionError(f"{call} was not refused")


def typed(namespace):
    core = client.CoreV1Api()
    batch = client.BatchV1Api()
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="typed", labels={"by": "python"}), data={"a": "1"})
    made = core.create_namespaced_config_map(namespace, body)
    assert made.metadata.uid and made.metadata.creation_timestamp, made
    refused(409, core.create_namespaced_config_map, namespace, body)

    made.data["a"] = "2"
    newer = core.replace_namespaced_config_map("typed", namespace, made)
    assert int(newer.metadata.resource_version) > int(made.metadata.resource_version)
    refused(409, core.replace_namespaced_config_map, "typed", namespace, made)
    patched = core.patch_namespaced_config_map("typed", namespace, {"data": {"b": "3"}})
    assert patched.data == {"a": "2", "b": "3"}, patched.data
    listed = core.list_namespaced_config_map(namespace, label_selector="by=python")
    assert [item.metadata.name for item in listed.items] == ["typed"], listed

    pod = client.V1PodTemplateSpec(
        spec=client.V1PodSpec(restart_policy="Never", containers=[client.V1Container(name="c", image="busybox")])
    )
    job = client.V1Job(metadata=client.V1ObjectMeta(name="typed"), spec=client.V1JobSpec(template=pod, suspend=True))
    made = batch.create_namespaced_job(namespace, job)
    assert made.spec.backoff_limit == 6 and made.spec.suspend, made.spec
    status = client.V1Job(status=client.V1JobStatus(active=0)).to_dict()["status"]
    assert status is not None
    batch.delete_namespaced_job("typed", namespace, propagation_policy="Background")
    refused(404, core.read_namespaced_config_map, "no-such", namespace)


def dynamically(namespace):
    resources = dynamic.DynamicClient(client.ApiClient())
    maps = resources.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dynamic"}, "data": {"a": "1"}}
    maps.create(body=body, namespace=namespace)
    applied = maps.server_side_apply(
        body={**body, "data": {"b": "2"}}, namespace=namespace, name="dynamic", field_manager="python"
    )
    assert applied.data.a == "1" and applied.data.b == "2", applied
    jobs = resources.resources.get(api_version="batch/v1", kind="Job")
    assert jobs.namespaced and "watch" in jobs.verbs
    maps.delete(name="dynamic", namespace=namespace)


def watching(namespace):
    core = client.CoreV1Api()
    first = core.list_namespaced_secret(namespace)
    seen = []

    def write():
        secret = client.V1Secret(metadata=client.V1ObjectMeta(name="watched"), string_data={"a": "b"})
        core.create_namespaced_secret(namespace, secret)
        core.patch_namespaced_secret("watched", namespace, {"metadata": {"labels": {"x": "y"}}})
        core.delete_namespaced_secret("watched", namespace)

    writer = threading.Thread(target=write)
    writer.start()
    stream = watch.Watch().stream(
        core.list_namespaced_secret,
        namespace,
        resource_version=first.metadata.resource_version,
        timeout_seconds=PATIENCE_SECONDS,
    )
    for event in stream:
        seen.append(event["type"])
        if event["type"] == "DELETED":
            break
    writer.join()
    assert seen == ["ADDED", "MODIFIED", "DELETED"], seen


def custom(namespace):
    extensions = client.ApiextensionsV1Api()
    objects = client.CustomObjectsApi()
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    names = {"plural": "shelves", "singular": "shelf", "kind": "Shelf"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "shelves.python.example.com"},
        "spec": {"group": "python.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    extensions.create_custom_resource_definition(definition)
    for event in watch.Watch().stream(extensions.list_custom_resource_definition, timeout_seconds=PATIENCE_SECONDS):
        crd = event["object"]
        conditions = (crd.status.conditions or []) if crd.status else []
        if crd.metadata.name == "shelves.python.example.com" and any(
            c.type == "Established" and c.status == "True" for c in conditions
        ):
            break
    of = ("python.example.com", "v1", namespace, "shelves")
    shelf = {"apiVersion": "python.example.com/v1", "kind": "Shelf", "metadata": {"name": "s"}, "spec": {"size": 3}}
    made = objects.create_namespaced_custom_object(*of, shelf)
    assert made["spec"]["size"] == 3, made
    refused(422, objects.patch_namespaced_custom_object, *of, "s", {"spec": {"size": "large"}})
    objects.delete_namespaced_custom_object(*of, "s")
    extensions.delete_custom_resource_definition("shelves.python.example.com")


def main():
    config.load_kube_config()
    namespace = sys.argv[1]
    for step in (typed, dynamically, watching, custom):
        step(namespace)
        print("ok", step.__name__)


if __name__ == "__main__":
    main()
