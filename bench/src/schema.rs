//! What the schema table costs: reading it, holding it, and the steps of a write that it drives.

use std::time::Instant;

use muster_schema::node::View;
use muster_schema::{proto, structure, table, zero};
use muster_tree::{Tree, tree};

use crate::measure;

/// How often each step is repeated.
const ROUNDS: u32 = 10_000;

pub fn run() {
    load();
    steps();
}

fn load() {
    let before = measure::resident();
    let start = Instant::now();
    let table = table::builtin();
    let took = start.elapsed();
    println!(
        "schema table: {:.1} ms, {} KB resident, {} nodes, {} components, {} kinds",
        took.as_secs_f64() * 1e3,
        measure::resident().saturating_sub(before) / 1024,
        table.schema.nodes.len(),
        table.components().len(),
        table.kinds.len(),
    );
    let before = measure::resident();
    let start = Instant::now();
    let refused = proto::decode(b"k8s\0").is_err();
    println!(
        "protobuf descriptors: {:.1} ms, {} KB resident (empty body refused: {refused})",
        start.elapsed().as_secs_f64() * 1e3,
        measure::resident().saturating_sub(before) / 1024,
    );
}

fn steps() {
    let table = table::builtin();
    let root = table.root("", "v1", "Pod").expect("Pod is built in");
    let view = View { schema: &table.schema, id: root.id };
    let sent = pod();
    let absent = zero::absent(table, root.id, &sent);
    let whole = structure::default(view, &absent);
    time("zero values that mean absence", || zero::absent(table, root.id, &sent));
    time("defaults", || structure::default(view, &absent));
    time("zero values that are written", || zero::written(table, root.id, &whole));
}

fn time(what: &str, mut step: impl FnMut() -> Tree) {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        std::hint::black_box(step());
    }
    println!("{what}: {:.2} µs per Pod", start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS));
}

fn pod() -> Tree {
    tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d", "labels": {"a": "b"}}, "spec": {
        "containers": [{
            "name": "main", "image": "registry/train:1", "command": ["python", "train.py"],
            "env": [{"name": "RANK", "value": "0"}, {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "ports": [{"containerPort": 8080}],
            "resources": {"limits": {"cpu": "4", "memory": "8Gi"}, "requests": {"cpu": "4", "memory": "8Gi"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }],
        "restartPolicy": "Never", "hostNetwork": false,
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "tmp", "emptyDir": {}}],
    }})
}
