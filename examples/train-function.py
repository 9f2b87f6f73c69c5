"""Trains a function on two nodes, by Kubeflow's SDK (pip install kubeflow) and a `muster up` that KUBECONFIG names.

The nodes are processes of this machine; they find each other by name. Prints what they said.
"""

from kubeflow.trainer import CustomTrainer, TrainerClient


def train(nodes, numbers):
    import os
    import socket
    import time

    rank = int(os.environ["JOB_COMPLETION_INDEX"])
    # train-node-0-1 is the second node of the TrainJob `train`; the first one is where all meet.
    job = os.environ["HOSTNAME"].rsplit("-node-", 1)[0]
    place = (f"{job}-node-0-0.{job}", 29500)
    mine = sum(range(rank, numbers + 1, nodes))
    print(f"node {rank} of {nodes} has {mine}", flush=True)
    if rank == 0:
        server = socket.create_server(place)
        others = [server.accept()[0] for _ in range(1, nodes)]
        total = mine + sum(int(other.makefile().readline()) for other in others)
        for other in others:
            other.sendall(f"{total}\n".encode())
    else:
        while True:
            try:
                first = socket.create_connection(place)
                break
            except OSError:
                time.sleep(0.1)
        first.sendall(f"{mine}\n".encode())
        total = int(first.makefile().readline())
    print(f"node {rank} knows that the sum is {total}")


def main():
    client = TrainerClient()
    trainer = CustomTrainer(func=train, func_args={"nodes": 2, "numbers": 1000}, num_nodes=2)
    job = client.train(runtime="local-process", trainer=trainer)
    client.wait_for_job_status(job, timeout=120, polling_interval=1)
    for node in ("node-0", "node-1"):
        print("\n".join(client.get_job_logs(job, step=node)))
    client.delete_job(job)


if __name__ == "__main__":
    main()
