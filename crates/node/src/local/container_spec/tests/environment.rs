//! Tests of environment variables: sources, order and errors.

use muster_process::Isolation;
use muster_tree::{Text, Tree, tree};

use super::{Place, World, config_map, pod, secret};

fn world() -> World {
    let claim = |uid: &str, results: Tree| {
        tree!({"kind": "ResourceClaim", "metadata": {"name": format!("claim-{uid}"), "namespace": "n", "uid": "r"},
            "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": uid}],
                "allocation": {"devices": {"results": results}}}})
    };
    let device = |request: &str, driver: &str, name: &str| tree!({"request": request, "driver": driver, "pool": "node", "device": name});
    let waiting =
        claim("u-1", Tree::Null).with(&["metadata", "name"], "waiting").without(&["status", "allocation"]);
    World::of([
        config_map("config", &tree!({"a": "1", "b.c": "2", "ref": "$(a)"})),
        secret("secret", &tree!({"key": "aHVzaA==", "bytes": "/w==", "nul": "AA=="})),
        claim(
            "u-1",
            Tree::list([
                device("gpu", "gpu.nvidia.com", "gpu-3"),
                device("gpu", "gpu.nvidia.com", "gpu-1"),
                device("nic/fast", "net.example.com", "eth1"),
            ]),
        ),
        claim("other", Tree::Null),
        waiting,
    ])
}

/// The variables of a container without the base environment.
fn own(place: &Place, container: &Tree, spec: &Tree) -> Result<Vec<(String, String)>, String> {
    let quiet = tree!({"enableServiceLinks": false}).merge(spec);
    let made = place.launch(&pod(container, &quiet)).map_err(|it| it.message)?;
    Ok(made
        .env
        .into_iter()
        .filter(|(name, _)| !["PATH", "HOSTNAME", "HOME"].contains(&name.as_str()))
        .collect())
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn values_and_references() {
    let place = Place::of(world());
    let from = |source: Tree| tree!({"env": [{"name": "A", "valueFrom": source}]});
    for (says, container, want) in [
        ("none", tree!({}), Ok(pairs(&[]))),
        (
            "plain",
            tree!({"env": [{"name": "A", "value": "x"}, {"name": "B"}]}),
            Ok(pairs(&[("A", "x"), ("B", "")])),
        ),
        (
            "earlier ones may be named, later ones not",
            tree!({"env": [{"name": "A", "value": "$(B)$(C)"}, {"name": "B", "value": "b"},
                {"name": "C", "value": "$(A)-$(B)-$$(B)"}]}),
            Ok(pairs(&[("A", "$(B)$(C)"), ("B", "b"), ("C", "$(B)$(C)-b-$(B)")])),
        ),
        (
            "said twice: the last one counts, in the place of the first",
            tree!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}, {"name": "A", "value": "2"}]}),
            Ok(pairs(&[("A", "2"), ("B", "1")])),
        ),
        (
            "whole objects come first, with their prefix, and are not looked through",
            tree!({"env": [{"name": "X_a", "value": "mine"}, {"name": "Y", "value": "$(X_b.c)"}],
                "envFrom": [{"prefix": "X_", "configMapRef": {"name": "config"}}]}),
            Ok(pairs(&[("X_a", "mine"), ("X_b.c", "2"), ("X_ref", "$(a)"), ("Y", "2")])),
        ),
        (
            "later objects over earlier ones",
            tree!({"envFrom": [{"configMapRef": {"name": "config"}}, {"prefix": "", "configMapRef": {"name": "config"}}]}),
            Ok(pairs(&[("a", "1"), ("b.c", "2"), ("ref", "$(a)")])),
        ),
        (
            "an object that may be missing",
            tree!({"envFrom": [{"configMapRef": {"name": "no", "optional": true}}, {"secretRef": {"name": "no", "optional": true}}]}),
            Ok(pairs(&[])),
        ),
        (
            "an object that may not",
            tree!({"envFrom": [{"secretRef": {"name": "no"}}]}),
            Err("secret \"no\" not found"),
        ),
        ("a key", from(tree!({"configMapKeyRef": {"name": "config", "key": "a"}})), Ok(pairs(&[("A", "1")]))),
        (
            "a secret key",
            from(tree!({"secretKeyRef": {"name": "secret", "key": "key"}})),
            Ok(pairs(&[("A", "hush")])),
        ),
        (
            "no such object",
            from(tree!({"configMapKeyRef": {"name": "no", "key": "a"}})),
            Err("configmap \"no\" not found"),
        ),
        (
            "no such key",
            from(tree!({"secretKeyRef": {"name": "secret", "key": "no"}})),
            Err("couldn't find key no in Secret n/secret"),
        ),
        (
            "no such key, which may be missing",
            from(tree!({"configMapKeyRef": {"name": "config", "key": "no", "optional": true}})),
            Ok(pairs(&[])),
        ),
        (
            "bytes that are no text",
            from(tree!({"secretKeyRef": {"name": "secret", "key": "bytes"}})),
            Err("the value of key \"bytes\" is not UTF-8 text and cannot be a variable"),
        ),
        (
            "a NUL",
            from(tree!({"secretKeyRef": {"name": "secret", "key": "nul"}})),
            Err("the value of variable \"A\" contains a NUL character"),
        ),
        (
            "a field",
            from(tree!({"fieldRef": {"fieldPath": "metadata.labels['app']"}})),
            Ok(pairs(&[("A", "x")])),
        ),
        ("the node", from(tree!({"fieldRef": {"fieldPath": "spec.nodeName"}})), Ok(pairs(&[("A", "node")]))),
        (
            "the account",
            from(tree!({"fieldRef": {"fieldPath": "spec.serviceAccountName"}})),
            Ok(pairs(&[("A", "robot")])),
        ),
        (
            "the address",
            from(tree!({"fieldRef": {"fieldPath": "status.podIP"}})),
            Ok(pairs(&[("A", "127.1.0.1")])),
        ),
        (
            "the node's",
            from(tree!({"fieldRef": {"fieldPath": "status.hostIPs"}})),
            Ok(pairs(&[("A", "10.0.0.7")])),
        ),
        (
            "no field",
            from(tree!({"fieldRef": {"fieldPath": "status.phase"}})),
            Err("unsupported fieldPath: status.phase"),
        ),
        (
            "a resource without a limit is the node's",
            from(tree!({"resourceFieldRef": {"resource": "limits.cpu"}})),
            Ok(pairs(&[("A", "8")])),
        ),
    ] {
        assert_eq!(own(&place, &container, &tree!({})), want.map_err(str::to_owned), "{says}");
    }
}

#[test]
fn file_key_refs() {
    let place = Place::of(world());
    let with = |path: &str, key: &str, optional: bool| {
        let file = tree!({"volumeName": "v", "path": path, "key": key, "optional": optional});
        tree!({"env": [{"name": "A", "valueFrom": {"fileKeyRef": file}}]})
    };
    let spec = tree!({"volumes": [{"name": "v", "emptyDir": {}}]});
    let file = "pods/u-1/volumes/v/env";
    let write = |text: &str| std::fs::write(place.folder.path().join(file), text).unwrap();
    assert!(
        own(&place, &with("env", "K", false), &spec)
            .unwrap_err()
            .starts_with("couldn't parse env file: env: ")
    );
    write("K='v'\nL=''\n");
    for (says, container, want) in [
        ("a key", with("env", "K", false), Ok(pairs(&[("A", "v")]))),
        (
            "no such key",
            with("env", "M", false),
            Err("environment variable key \"M\" not found in file \"env\""),
        ),
        ("no such key, which may be missing", with("env", "M", true), Ok(pairs(&[]))),
        ("an empty value is as good as none", with("env", "L", true), Ok(pairs(&[]))),
    ] {
        assert_eq!(own(&place, &container, &spec), want.map_err(str::to_owned), "{says}");
    }
    let out = own(&place, &with("../../../../secret", "K", true), &spec).unwrap_err();
    std::fs::write(place.folder.path().join("secret"), "K='v'").unwrap();
    assert!(out.starts_with("couldn't parse env file"), "{out}");
    let out = own(&place, &with("../../../../secret", "K", true), &spec).unwrap_err();
    assert!(out.ends_with("leads out of the volume"), "{out}");
}

fn service(namespace: &str, name: &str, address: &str, ports: Tree) -> Tree {
    tree!({"kind": "Service", "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": address, "ports": ports}})
}

#[test]
fn service_variables_unless_disabled() {
    let https = tree!([{"name": "https", "port": 443, "protocol": "TCP"}]);
    let mut place = Place::of(World::of([
        service("default", "kubernetes", "10.0.0.1", https),
        service(
            "n",
            "my-db",
            "10.0.0.2",
            tree!([{"port": 5432}, {"name": "web-ui", "port": 80, "protocol": "UDP"}]),
        ),
        service("n", "headless", "None", tree!([{"port": 1}])),
        service("other", "far", "10.0.0.3", tree!([{"port": 1}])),
    ]));
    let api = |host: &str, port: &str| {
        let link = format!("tcp://{host}:{port}");
        let all = [
            ("KUBERNETES_PORT".to_owned(), link.clone()),
            (format!("KUBERNETES_PORT_{port}_TCP"), link),
            (format!("KUBERNETES_PORT_{port}_TCP_ADDR"), host.to_owned()),
            (format!("KUBERNETES_PORT_{port}_TCP_PORT"), port.to_owned()),
            (format!("KUBERNETES_PORT_{port}_TCP_PROTO"), "tcp".to_owned()),
            ("KUBERNETES_SERVICE_HOST".to_owned(), host.to_owned()),
            ("KUBERNETES_SERVICE_PORT".to_owned(), port.to_owned()),
            ("KUBERNETES_SERVICE_PORT_HTTPS".to_owned(), port.to_owned()),
        ];
        all.to_vec()
    };
    let database = pairs(&[
        ("MY_DB_PORT", "tcp://10.0.0.2:5432"),
        ("MY_DB_PORT_5432_TCP", "tcp://10.0.0.2:5432"),
        ("MY_DB_PORT_5432_TCP_ADDR", "10.0.0.2"),
        ("MY_DB_PORT_5432_TCP_PORT", "5432"),
        ("MY_DB_PORT_5432_TCP_PROTO", "tcp"),
        ("MY_DB_PORT_80_UDP", "udp://10.0.0.2:80"),
        ("MY_DB_PORT_80_UDP_ADDR", "10.0.0.2"),
        ("MY_DB_PORT_80_UDP_PORT", "80"),
        ("MY_DB_PORT_80_UDP_PROTO", "udp"),
        ("MY_DB_SERVICE_HOST", "10.0.0.2"),
        ("MY_DB_SERVICE_PORT", "5432"),
        ("MY_DB_SERVICE_PORT_WEB_UI", "80"),
    ]);
    let wanted = tree!({"enableServiceLinks": true});
    let both = [api("10.0.0.1", "443"), database].concat();
    assert_eq!(own(&place, &tree!({}), &wanted), Ok(both));
    assert_eq!(own(&place, &tree!({}), &tree!({})), Ok(api("10.0.0.1", "443")));
    let named = tree!({"env": [{"name": "KUBERNETES_SERVICE_HOST", "value": "me"}, {"name": "X", "value": "$(MY_DB_SERVICE_PORT)"}]});
    let got = own(&place, &named, &wanted).unwrap();
    assert_eq!(got[..2], pairs(&[("KUBERNETES_SERVICE_HOST", "me"), ("X", "5432")]));
    assert_eq!(got.iter().filter(|(name, _)| name == "KUBERNETES_SERVICE_HOST").count(), 1);
    place.server = Some(("127.0.0.1".into(), 6443));
    assert_eq!(
        own(&place, &tree!({}), &tree!({})),
        Ok(api("127.0.0.1", "6443")),
        "where it can be reached from here"
    );
}

#[test]
fn base_environment() {
    let mut place = Place::of(World::default());
    let base = |place: &Place, container: &Tree| {
        let made = place.launch(&pod(container, &tree!({"hostname": "h"}))).unwrap();
        (made.env, made.mounts.into_iter().map(|it| (it.source, it.target)).collect::<Vec<_>>())
    };
    let home = place.folder.path().join("pods/u-1/home");
    let (env, mounts) = base(&place, &tree!({"tty": true}));
    let want = [("PATH", "/usr/bin:/bin"), ("HOSTNAME", "h"), ("HOME", "/muster/home"), ("TERM", "xterm")];
    assert_eq!(env, pairs(&want));
    assert_eq!(mounts, [(home.clone(), "/muster/home".into())]);
    let (env, _) =
        base(&place, &tree!({"env": [{"name": "HOME", "value": "/x"}, {"name": "PATH", "value": "/y"}]}));
    assert_eq!(env, pairs(&[("HOSTNAME", "h"), ("HOME", "/x"), ("PATH", "/y")]));
    place.isolation = Isolation::None;
    let (env, mounts) = base(&place, &tree!({}));
    assert_eq!(env[2], ("HOME".to_owned(), home.display().to_string()));
    assert_eq!(mounts, [], "there is nothing that could be mounted over");
}

#[test]
fn device_variables_by_request() {
    let place = Place::of(world());
    let spec = |claim: &str| tree!({"resourceClaims": [{"name": "c", "resourceClaimName": claim}]});
    let uses = |claims: Tree| tree!({"resources": {"claims": claims}});
    let refused =
        |why: &str| Err(format!("Failed to prepare dynamic resources: prepare dynamic resources: {why}"));
    for (says, container, claim, want) in [
        (
            "all requests",
            uses(tree!([{"name": "c"}])),
            "claim-u-1",
            Ok(pairs(&[
                ("CUDA_VISIBLE_DEVICES", "3,1"),
                ("MUSTER_DEVICES_GPU", "gpu-3,gpu-1"),
                ("MUSTER_DEVICES_NIC", "eth1"),
            ])),
        ),
        (
            "one request",
            uses(tree!([{"name": "c", "request": "nic"}])),
            "claim-u-1",
            Ok(pairs(&[("MUSTER_DEVICES_NIC", "eth1")])),
        ),
        ("a container that uses none", tree!({}), "claim-u-1", Ok(pairs(&[]))),
        (
            "somebody else's",
            uses(tree!([{"name": "c"}])),
            "claim-other",
            refused("pod p (u-1) is not allowed to use ResourceClaim claim-other (r)"),
        ),
        (
            "none given yet",
            uses(tree!([{"name": "c"}])),
            "waiting",
            refused("ResourceClaim waiting: claim is not allocated yet"),
        ),
        (
            "no such claim",
            uses(tree!([{"name": "c"}])),
            "no",
            refused("fetch ResourceClaim no: resourceclaims.resource.k8s.io \"no\" not found"),
        ),
    ] {
        assert_eq!(own(&place, &container, &spec(claim)), want, "{says}");
    }
}

#[test]
fn rendezvous_addresses_are_resolved_without_dns() {
    let mut place = Place::of(World::default());
    place.world.addresses.insert("p-0.s/n".to_owned(), Text::from("127.1.0.9"));
    let container = tree!({"command": ["run", "--at=$(MASTER_ADDR):1"], "env": [
        {"name": "MASTER_ADDR", "value": "p-0.s"},
        {"name": "PET_RDZV_ENDPOINT", "value": "tcp://$(MASTER_ADDR):29500"},
        {"name": "JAX_COORDINATOR_ADDRESS", "value": "p-0.s:1234"},
        {"name": "TPU_WORKER_HOSTNAMES", "value": "p-0.s,p-1.s"},
        {"name": "OTHER", "value": "p-0.s"}]});
    let spec = tree!({"enableServiceLinks": false});
    let made = place.launch(&pod(&container, &spec)).unwrap();
    assert!(made.env.contains(&("MASTER_ADDR".to_owned(), "p-0.s".to_owned())), "a hosts file does it");
    place.isolation = Isolation::None;
    let made = place.launch(&pod(&container, &spec)).unwrap();
    let want = [
        ("MASTER_ADDR", "127.1.0.9"),
        ("PET_RDZV_ENDPOINT", "tcp://127.1.0.9:40001"),
        ("JAX_COORDINATOR_ADDRESS", "127.1.0.9:40005"),
        ("TPU_WORKER_HOSTNAMES", "127.1.0.9,p-1.s"),
        ("OTHER", "p-0.s"),
    ];
    assert_eq!(made.env[3..], pairs(&want));
    assert_eq!(made.argv, ["run", "--at=127.1.0.9:1"]);
}

#[test]
fn rendezvous_ports_are_mapped_to_host_ports() {
    let mut place = Place { isolation: Isolation::None, ..Place::of(World::default()) };
    place.world.addresses.insert("p-0.s/n".to_owned(), Text::from("127.1.0.9"));
    let spec = tree!({"enableServiceLinks": false, "hostname": "p-1", "subdomain": "s"});
    let told = |variables: Tree| own(&place, &tree!({"env": variables}), &spec).unwrap();
    for (says, variables, want) in [
        (
            "torch",
            tree!([{"name": "PET_MASTER_ADDR", "value": "p-0.s"}, {"name": "PET_MASTER_PORT", "value": "29500"}]),
            [("PET_MASTER_ADDR", "127.1.0.9"), ("PET_MASTER_PORT", "40001")],
        ),
        (
            "xgboost, the port first",
            tree!([{"name": "DMLC_TRACKER_PORT", "value": "29500"}, {"name": "DMLC_TRACKER_URI", "value": "p-0.s"}]),
            [("DMLC_TRACKER_PORT", "40001"), ("DMLC_TRACKER_URI", "127.1.0.9")],
        ),
        (
            "the pod itself, which nobody knows the address of yet",
            tree!([{"name": "MASTER_ADDR", "value": "p-1.s.n.svc"}, {"name": "MASTER_PORT", "value": "29500"}]),
            [("MASTER_ADDR", "127.1.0.1"), ("MASTER_PORT", "40002")],
        ),
        (
            "both in one word, once",
            tree!([{"name": "JAX_COORDINATOR_ADDRESS", "value": "p-0.s:29500"},
                {"name": "RDZV_ENDPOINT", "value": "$(JAX_COORDINATOR_ADDRESS)"}]),
            [("JAX_COORDINATOR_ADDRESS", "127.1.0.9:40001"), ("RDZV_ENDPOINT", "127.1.0.9:40001")],
        ),
        (
            "another machine",
            tree!([{"name": "MASTER_ADDR", "value": "example.org"}, {"name": "MASTER_PORT", "value": "29500"}]),
            [("MASTER_ADDR", "example.org"), ("MASTER_PORT", "29500")],
        ),
        (
            "no machine at all",
            tree!([{"name": "MASTER_PORT", "value": "29500"}, {"name": "JAX_COORDINATOR_ADDRESS", "value": "[::1]:80"}]),
            [("MASTER_PORT", "29500"), ("JAX_COORDINATOR_ADDRESS", "[::1]:80")],
        ),
    ] {
        assert_eq!(told(variables), pairs(&want), "{says}");
    }
    let argv = |text: Tree| {
        let made = place.launch(&pod(&tree!({"command": text}), &spec)).unwrap();
        made.argv.join(" ")
    };
    assert_eq!(
        argv(tree!(["tune", "run", "--rdzv_endpoint=p-0.s:29500", "x=p-0.s:29500"])),
        "tune run --rdzv_endpoint=127.1.0.9:40001 x=p-0.s:29500"
    );
    assert_eq!(
        argv(tree!(["torchrun", "--rdzv-endpoint", "p-0.s", "p-0.s"])),
        "torchrun --rdzv-endpoint 127.1.0.9 p-0.s"
    );
}

#[test]
fn a_container_waits_for_its_rendezvous_peer() {
    let mut place = Place { isolation: Isolation::None, ..Place::of(World::default()) };
    let spec = tree!({"hostname": "p-1", "subdomain": "s"});
    let meets = |host: &str| pod(&tree!({"env": [{"name": "MASTER_ADDR", "value": host}]}), &spec);
    for (host, waits) in
        [("p-0.s", true), ("p-0.s.n.svc.cluster.local", true), ("p-0.other", false), ("s", false)]
    {
        let awaited = place.launch(&meets(host)).err().and_then(|problem| problem.awaits());
        assert_eq!(awaited.is_some(), waits, "{host}");
    }
    let problem = place.launch(&meets("p-0.s")).unwrap_err();
    assert_eq!(problem.waiting, "ContainerCreating");
    place.patient = false;
    let made = place.launch(&meets("p-0.s")).expect("it may see for itself");
    assert!(made.env.contains(&("MASTER_ADDR".to_owned(), "p-0.s".to_owned())));
}

/// Progress reporters get paths of files that exist.
#[test]
fn file_paths_are_host_paths_without_mount_namespaces() {
    let mut place = Place::of(World::of([config_map("job-tls-config", &tree!({"ca.crt": "pem"}))]));
    place.world.tokens.insert("a/3600".to_owned(), "secret".into());
    let folder = "/var/run/secrets/kubeflow/trainer";
    let container = tree!({"env": [
            {"name": "KUBEFLOW_TRAINER_SERVER_CA_CERT", "value": (format!("{folder}/ca.crt"))},
            {"name": "KUBEFLOW_TRAINER_SERVER_TOKEN", "value": (format!("{folder}/token"))}],
        "volumeMounts": [{"name": "kubeflow-trainer-token", "mountPath": folder, "readOnly": true}]});
    let spec = tree!({"volumes": [{"name": "kubeflow-trainer-token", "projected": {"sources": [
        {"serviceAccountToken": {"audience": "a", "expirationSeconds": 3600, "path": "token"}},
        {"configMap": {"name": "job-tls-config", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}}]});
    assert_eq!(own(&place, &container, &spec).unwrap()[1].1, format!("{folder}/token"), "it is mounted");
    place.isolation = Isolation::None;
    let told = own(&place, &container, &spec).unwrap();
    let read = told.iter().map(|(_, path)| std::fs::read_to_string(path).unwrap());
    assert_eq!(read.collect::<Vec<_>>(), ["pem", "secret"]);
}
