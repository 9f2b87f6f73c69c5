"""Checks the streams of the Python client: exec with stdin and exit codes, followed logs, port-forward.

Runs in the namespace of its first argument; exits with an error if the server deviates.
"""

import sys
import time

from kubernetes import client, config, watch
from kubernetes.stream import portforward, stream

PATIENCE_SECONDS = 60

SERVER = """
import os, socket
server = socket.create_server((os.environ["IP"], 8000))
while True:
    connection, _ = server.accept()
    connection.sendall(connection.recv(100).upper())
    connection.close()
"""


def pod(name, command):
    address = client.V1EnvVarSource(field_ref=client.V1ObjectFieldSelector(field_path="status.podIP"))
    container = client.V1Container(
        name="c", image="host", command=command, env=[client.V1EnvVar(name="IP", value_from=address)]
    )
    spec = client.V1PodSpec(containers=[container], restart_policy="Never", termination_grace_period_seconds=1)
    return client.V1Pod(metadata=client.V1ObjectMeta(name=name), spec=spec)


def until(core, namespace, name, phases):
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        seen = core.read_namespaced_pod(name, namespace).status.phase
        if seen in phases:
            return
        time.sleep(0.1)
    raise AssertionError(f"{name} is {seen}, not {phases}")


def commands(core, namespace):
    core.create_namespaced_pod(namespace, pod("runs", ["sh", "-c", "while :; do sleep 0.1; done"]))
    until(core, namespace, "runs", ["Running"])
    run = (core.connect_get_namespaced_pod_exec, "runs", namespace)
    flags = {"stderr": True, "stdin": False, "stdout": True, "tty": False}
    said = stream(*run, command=["sh", "-c", "echo out; echo err >&2"], **flags)
    assert sorted(said.split()) == ["err", "out"], said

    flags["stdin"] = True
    shell = stream(*run, command=["sh"], _preload_content=False, **flags)
    shell.write_stdin("echo typed\n")
    assert shell.readline_stdout(timeout=PATIENCE_SECONDS) == "typed"
    shell.write_stdin("echo trouble >&2\n")
    assert shell.readline_stderr(timeout=PATIENCE_SECONDS) == "trouble"
    shell.write_stdin("exit 4\n")
    shell.run_forever(timeout=PATIENCE_SECONDS)
    assert shell.returncode == 4, shell.returncode
    shell.close()


def logs(core, namespace):
    core.create_namespaced_pod(namespace, pod("counts", ["sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.3; done"]))
    until(core, namespace, "counts", ["Running", "Succeeded"])
    lines = list(watch.Watch().stream(core.read_namespaced_pod_log, name="counts", namespace=namespace))
    assert lines == ["1", "2", "3"], lines
    assert core.read_namespaced_pod_log("counts", namespace, tail_lines=1) == "3\n"


def ports(core, namespace):
    core.create_namespaced_pod(namespace, pod("serves", ["python3", "-c", SERVER]))
    until(core, namespace, "serves", ["Running"])
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        forwarded = portforward(core.connect_get_namespaced_pod_portforward, "serves", namespace, ports="8000")
        connection = forwarded.socket(8000)
        connection.setblocking(True)
        try:
            connection.sendall(b"hello")
            heard = connection.recv(100)
        except OSError:
            heard = b""
        if heard == b"HELLO":
            return
        # The server may not listen yet.
        time.sleep(0.1)
    raise AssertionError(f"nobody answered on the port: {forwarded.error(8000)}")


def main():
    config.load_kube_config()
    namespace = sys.argv[1]
    core = client.CoreV1Api()
    for step in (commands, logs, ports):
        step(core, namespace)
        print("ok", step.__name__)


if __name__ == "__main__":
    main()
