"""Checks Kubeflow's SDK: runtimes, functions on several nodes, logs, events, options, deletion.

Runs in the namespace of its first argument, with the steps in the other arguments, or with all steps that need only Python.
Training nodes are local processes. Exits with an error if anything deviates.
"""

import logging
import sys
import time

from kubeflow.trainer import (
    CustomTrainer,
    CustomTrainerContainer,
    HuggingFaceDatasetInitializer,
    Initializer,
    KubernetesBackendConfig,
    RuntimeKind,
    TrainerClient,
    options,
)
from kubernetes import client as kube
from kubernetes import config
from kubernetes.client.rest import ApiException

PATIENCE_SECONDS = 120
GROUP = ("trainer.kubeflow.org", "v1alpha1")


class Complaints(logging.Handler):
    """Records warnings."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.said = []

    def emit(self, record):
        self.said.append(record.getMessage())


def eventually(what, look):
    """Polls until the result is truthy and returns it."""
    seen = None
    for _ in range(PATIENCE_SECONDS * 5):
        seen = look()
        if seen:
            return seen
        time.sleep(0.2)
    raise AssertionError(f"{what} never came: {seen}")


def fails(call, *args, **kwargs):
    """Asserts that a call raises the error of the SDK."""
    try:
        call(*args, **kwargs)
    except RuntimeError as problem:
        return problem
    raise AssertionError(f"{call} did not fail")


def pods_of(namespace, job):
    listed = kube.CoreV1Api().list_namespaced_pod(namespace, label_selector=f"jobset.sigs.k8s.io/jobset-name={job}")
    return listed.items


def wait(client, job, status="Complete"):
    return client.wait_for_job_status(job, status={status}, timeout=PATIENCE_SECONDS, polling_interval=1)


def patched(**pod):
    """An option that patches the pods of training nodes."""
    return options.RuntimePatch(
        training_runtime_spec=options.TrainingRuntimeSpecPatch(
            template=options.JobSetTemplatePatch(
                spec=options.JobSetSpecPatch(
                    replicated_jobs=[
                        options.ReplicatedJobPatch(
                            name="node",
                            template=options.JobTemplatePatch(
                                spec=options.JobSpecPatch(template=options.PodTemplatePatch(**pod))
                            ),
                        )
                    ]
                )
            )
        )
    )


def count(nodes, steps):
    """The training function: node 0 adds up the values of the others in each step."""
    import os
    import socket
    import time

    rank = int(os.environ["JOB_COMPLETION_INDEX"])
    job = os.environ["HOSTNAME"].rsplit("-node-", 1)[0]
    place = (f"{job}-node-0-0.{job}", 29500)
    print(f"{os.environ['GREETING']} from node {rank} of {nodes}", flush=True)
    if rank == 0:
        server = socket.create_server(place)
        lines = [server.accept()[0].makefile("rw") for _ in range(1, nodes)]
    else:
        while True:
            try:
                lines = [socket.create_connection(place).makefile("rw")]
                break
            except OSError:
                time.sleep(0.1)
    total = 0
    for step in range(steps):
        if rank == 0:
            total += step + sum(int(line.readline()) for line in lines)
        for line in lines:
            line.write(f"{total if rank == 0 else step * (rank + 1)}\n")
            line.flush()
        if rank != 0:
            total = int(lines[0].readline())
        print(f"node {rank} after step {step}: {total}", flush=True)
        time.sleep(0.3)


def hang():
    import time

    print("nobody comes", flush=True)
    time.sleep(86400)


def reduce():
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    weights = torch.full((2,), float(rank + 1))
    dist.all_reduce(weights)
    print(f"rank {rank} of {world} has {weights.tolist()}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def runtimes(client, namespace):
    found = {runtime.name: runtime for runtime in client.list_runtimes()}
    for name in ("torch-distributed", "jax-distributed", "deepspeed-distributed", "local-process"):
        assert name in found, sorted(found)
    torch = client.get_runtime("torch-distributed")
    assert torch.kind == RuntimeKind.CLUSTER_TRAINING_RUNTIME, torch
    assert torch.trainer.framework == "torch" and torch.trainer.num_nodes == 1, torch
    assert "pytorch" in torch.trainer.image, torch
    assert "torchrun" in torch.trainer.command[-1], torch
    assert "python" in found["local-process"].trainer.command[-1], found["local-process"]
    assert found["torchtune-llama3.2-1b"].trainer.device == "gpu", found["torchtune-llama3.2-1b"]
    fails(client.get_runtime, "nowhere")

    # A TrainingRuntime takes precedence over a ClusterTrainingRuntime of the same name.
    own = kube.CustomObjectsApi().get_cluster_custom_object(*GROUP, "clustertrainingruntimes", "local-process")
    own = {
        "apiVersion": own["apiVersion"],
        "kind": "TrainingRuntime",
        "metadata": {"name": "local-process", "labels": own["metadata"]["labels"]},
        "spec": own["spec"],
    }
    kube.CustomObjectsApi().create_namespaced_custom_object(*GROUP, namespace, "trainingruntimes", own)
    assert client.get_runtime("local-process").kind == RuntimeKind.TRAINING_RUNTIME
    kinds = [runtime.kind for runtime in client.list_runtimes() if runtime.name == "local-process"]
    assert kinds == [RuntimeKind.TRAINING_RUNTIME], kinds
    kube.CustomObjectsApi().delete_namespaced_custom_object(*GROUP, namespace, "trainingruntimes", "local-process")


def functions(client, namespace):
    trainer = CustomTrainer(
        func=count,
        func_args={"nodes": 2, "steps": 8},
        num_nodes=2,
        resources_per_node={"cpu": "250m", "memory": "64Mi"},
        env={"GREETING": "hello"},
    )
    labels = options.Labels({"team": "vision"})
    statuses = []
    job = client.train(runtime="local-process", trainer=trainer, options=[options.Name("sums"), labels])
    assert job == "sums", job
    fails(client.train, runtime="local-process", trainer=trainer, options=[options.Name("sums")])

    # Logs are streamed while the nodes run, and end with them.
    eventually("a node that runs", lambda: [s for s in client.get_job(job).steps if s.status == "Running"])
    eventually("the first node", lambda: [s for s in client.get_job(job).steps if (s.name, s.status) == ("node-0", "Running")])
    followed = list(client.get_job_logs(job, step="node-0", follow=True))
    want = ["hello from node 0 of 2"]
    want += [f"node 0 after step {step}: {sum(3 * s for s in range(step + 1))}" for step in range(8)]
    assert followed == want, followed

    done = client.wait_for_job_status(
        job, timeout=PATIENCE_SECONDS, polling_interval=1, callbacks=[lambda it: statuses.append(it.status)]
    )
    assert done.status == "Complete" and statuses[-1] == "Complete", (done, statuses)
    assert done.num_nodes == 2 and done.runtime.name == "local-process", done
    assert sorted(step.name for step in done.steps) == ["node-0", "node-1"], done.steps
    assert {step.status for step in done.steps} == {"Succeeded"}, done.steps
    assert {(step.device, step.device_count) for step in done.steps} == {("cpu", "250m")}, done.steps
    assert list(client.get_job_logs(job, step="node-0")) == want
    other = list(client.get_job_logs(job, step="node-1"))
    assert other[0] == "hello from node 1 of 2" and other[-1] == want[-1].replace("node 0", "node 1"), other

    listed = client.list_jobs()
    assert [it.name for it in listed] == [job], listed
    assert client.list_jobs(runtime=client.get_runtime("torch-distributed")) == []
    read = kube.CustomObjectsApi().get_namespaced_custom_object(*GROUP, namespace, "trainjobs", job)
    assert read["metadata"]["labels"] == {"team": "vision"}, read["metadata"]
    assert [c["type"] for c in read["status"]["conditions"]] == ["Complete"], read["status"]

    events = client.get_job_events(job)
    told = {(event.involved_object_kind, event.reason) for event in events}
    for kind in ("TrainJob", "Pod"):
        assert any(of == kind for of, _ in told), told
    assert ("TrainJob", "Completed") in told and ("Pod", "Scheduled") in told, told
    assert [event.event_time for event in events] == sorted(event.event_time for event in events)

    client.delete_job(job)
    fails(client.get_job, job)
    fails(client.delete_job, job)
    eventually("the end of its pods", lambda: not pods_of(namespace, job))


def waiting(client, namespace):
    """The SDK derives the status Running: no conditions, and all nodes run."""
    trainer = CustomTrainer(func=hang, num_nodes=2)
    job = client.train(runtime="local-process", trainer=trainer, options=[options.ActiveDeadlineSeconds(20)])
    running = wait(client, job, "Running")
    assert {step.status for step in running.steps} == {"Running"}, running.steps
    failed = wait(client, job, "Failed")
    assert failed.status == "Failed", failed
    fails(client.wait_for_job_status, job, timeout=10, polling_interval=1)
    told = {event.reason for event in client.get_job_events(job)}
    assert "DeadlineExceeded" in told, told
    eventually("the end of its pods", lambda: not pods_of(namespace, job))
    assert list(client.get_job_logs(job)) == [], "its pods are gone, and with them what they said"
    client.delete_job(job)


def containers(client, namespace):
    """A command instead of a function, and patches of the pods."""
    # The SDK sends the float as it is; servers accept it as an integer.
    trainer = CustomTrainerContainer(image="any", num_nodes=1, resources_per_node={"cpu": 1.0})
    job = client.train(
        runtime="local-process",
        trainer=trainer,
        options=[
            options.TrainerCommand(["sh", "-c"]),
            options.TrainerArgs(["echo one; echo two"]),
            options.Annotations({"note": "by hand"}),
            patched(metadata={"labels": {"patched": "yes"}}),
        ],
    )
    wait(client, job)
    assert list(client.get_job_logs(job)) == ["one", "two"]
    assert [pod.metadata.labels["patched"] for pod in pods_of(namespace, job)] == ["yes"]
    read = kube.CustomObjectsApi().get_namespaced_custom_object(*GROUP, namespace, "trainjobs", job)
    assert read["spec"]["runtimePatches"][0]["time"], read["spec"]
    client.delete_job(job)
    client.get_runtime_packages(client.get_runtime("local-process"))
    assert client.list_jobs() == []


def initializers(client, namespace):
    """An initializer fetches data to a volume that the node shares."""

    def step(name, ancestor, command, after=()):
        mounts = [{"name": "initializer", "mountPath": "/workspace"}]
        container = {"name": name, "image": "any", "command": ["sh", "-c", command], "volumeMounts": mounts}
        template = {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": ancestor}},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
        depends = {"dependsOn": [{"name": it, "status": "Complete"} for it in after]} if after else {}
        return {"name": name, "template": template, **depends}

    fetch = "echo $STORAGE_URI > $MUSTER_POD_ROOT/workspace/uri; echo fetched $STORAGE_URI"
    jobs = [
        step("dataset-initializer", "dataset-initializer", fetch),
        step("node", "trainer", "cat $MUSTER_POD_ROOT/workspace/uri", ["dataset-initializer"]),
    ]
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    policies = [{"templates": [{"metadata": {"name": "initializer"}, "spec": claim}]}]
    runtime = {
        "apiVersion": "/".join(GROUP),
        "kind": "TrainingRuntime",
        "metadata": {"name": "fetching", "labels": {"trainer.kubeflow.org/framework": "local"}},
        "spec": {
            "mlPolicy": {"numNodes": 1},
            "template": {"spec": {"volumeClaimPolicies": policies, "replicatedJobs": jobs}},
        },
    }
    kube.CustomObjectsApi().create_namespaced_custom_object(*GROUP, namespace, "trainingruntimes", runtime)
    wanted = Initializer(dataset=HuggingFaceDatasetInitializer(storage_uri="hf://some/data"))
    job = client.train(runtime="fetching", initializer=wanted)
    done = wait(client, job)
    assert sorted(step.name for step in done.steps) == ["dataset-initializer", "node-0"], done.steps
    assert list(client.get_job_logs(job, step="dataset-initializer")) == ["fetched hf://some/data"]
    assert list(client.get_job_logs(job)) == ["hf://some/data"]
    client.delete_job(job)


def torch(client, namespace):
    """A function in a PyTorch process group, started by the default runtime."""
    job = client.train(trainer=CustomTrainer(func=reduce, num_nodes=2, resources_per_node={"cpu": "500m"}))
    done = wait(client, job)
    assert done.runtime.name == "torch-distributed", done
    for node in (0, 1):
        said = [line for line in client.get_job_logs(job, step=f"node-{node}") if line.startswith("rank ")]
        assert said == [f"rank {node} of 2 has [3.0, 3.0]"], said
    client.delete_job(job)


STEPS = [runtimes, functions, waiting, containers, initializers, torch]
NEED_PYTHON_ONLY = [step.__name__ for step in STEPS if step is not torch]


def main():
    namespace, wanted = sys.argv[1], sys.argv[2:] or NEED_PYTHON_ONLY
    complaints = Complaints()
    logging.getLogger("kubeflow").addHandler(complaints)
    config.load_kube_config()
    kube.CoreV1Api().create_namespace({"metadata": {"name": namespace}})
    client = TrainerClient(KubernetesBackendConfig(namespace=namespace))
    assert complaints.said == [], complaints.said
    for step in STEPS:
        if step.__name__ in wanted:
            step(client, namespace)
            print("ok", step.__name__, flush=True)


if __name__ == "__main__":
    try:
        main()
    except ApiException as problem:
        sys.exit(f"{problem.status} {problem.reason}: {problem.body}")
