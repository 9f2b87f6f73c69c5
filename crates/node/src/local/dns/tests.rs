use std::fmt::Write;

use muster_tree::{Text, Tree, tree};
use proptest::prelude::*;

use super::*;

const UDP: usize = 512;

fn query(name: &str, kind: u16) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|it| !it.is_empty()) {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

/// The query with an EDNS limit.
fn roomy(mut query: Vec<u8>, room: u16) -> Vec<u8> {
    query[11] = 1;
    query.extend([0, 0, 41]);
    query.extend(room.to_be_bytes());
    query.extend([0; 6]);
    query
}

/// Reads a possibly compressed name.
fn name(bytes: &[u8], at: &mut usize) -> String {
    let mut name = String::new();
    let mut here = *at;
    let mut jumped = false;
    loop {
        let length = usize::from(bytes[here]);
        if length >= 0xc0 {
            if !jumped {
                *at = here + 2;
            }
            (here, jumped) = (usize::from(bytes[here + 1]), true);
            continue;
        }
        if length == 0 {
            break;
        }
        let label = std::str::from_utf8(&bytes[here + 1..here + 1 + length]).unwrap();
        write!(name, "{label}.").unwrap();
        here += 1 + length;
    }
    if !jumped {
        *at = here + 1;
    }
    name
}

/// A reply as text: code, flags and the records of each section.
fn read(bytes: &[u8]) -> Vec<String> {
    let field = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let code = ["ok", "malformed", "failed", "no such name", "not here"][usize::from(bytes[3] & 15)];
    let cut = if bytes[2] & 2 != 0 { " cut" } else { "" };
    let mut lines = vec![format!("{code}{cut}")];
    let mut at = 12;
    for _ in 0..field(4) {
        name(bytes, &mut at);
        at += 4;
    }
    for (section, count) in [("", field(6)), ("authority ", field(8)), ("beside ", field(10))] {
        for _ in 0..count {
            let of = name(bytes, &mut at);
            let (kind, length) = (field(at), usize::from(field(at + 8)));
            at += 10;
            let data = &bytes[at..at + length];
            let mut inner = at;
            lines.push(match kind {
                1 => format!(
                    "{section}{of} A {}",
                    std::net::Ipv4Addr::from(<[u8; 4]>::try_from(data).unwrap())
                ),
                28 => format!(
                    "{section}{of} AAAA {}",
                    std::net::Ipv6Addr::from(<[u8; 16]>::try_from(data).unwrap())
                ),
                6 => format!("{section}{of} SOA"),
                12 => format!("{section}{of} PTR {}", name(bytes, &mut inner)),
                33 => {
                    inner += 6;
                    format!("{section}{of} SRV {} {}", field(at + 4), name(bytes, &mut inner))
                }
                41 => format!("{section}OPT"),
                other => panic!("{other}"),
            });
            at += length;
        }
    }
    assert_eq!(at, bytes.len(), "nothing is left over");
    lines
}

fn names() -> Names {
    let service = |namespace: &str, name: &str, address: &str, early: bool, ports: Tree| {
        tree!({"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterIP": address, "ports": ports,
            "selector": {"app": name}, "publishNotReadyAddresses": early}})
    };
    let pod = |app: &str, hostname: &str, ready: &str, address: &str| {
        let tree = tree!({"metadata": {"name": format!("p-{address}"), "namespace": "n", "labels": {"app": app}},
            "spec": {"hostname": hostname, "subdomain": app, "containers": [{"name": "c", "image": "i",
                "ports": [{"name": "web", "containerPort": 8080, "protocol": "TCP"}]}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
        (tree, Text::from(address))
    };
    let http = tree!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "web"}]);
    Names::of(
        &[
            service(
                "default",
                "kubernetes",
                "10.0.0.1",
                false,
                tree!([{"name": "https", "port": 443, "protocol": "TCP"}]),
            ),
            service("n", "web", "10.0.0.2", false, http.clone()),
            service("n", "train", "None", false, http),
            service("n", "early", "None", true, tree!([{"port": 1}])),
            service("n", "six", "fd00::1", false, Tree::Null),
            service("n", "outside", "", false, Tree::Null),
        ],
        &[
            pod("train", "t-0", "True", "127.1.0.1"),
            pod("train", "t-1", "False", "127.1.0.2"),
            pod("train", "", "True", "127.1.0.3"),
            pod("early", "e-0", "False", "127.1.0.4"),
            pod("train", "gone", "True", ""),
        ],
        Some("127.0.0.1".parse().unwrap()),
    )
}

#[test]
fn questions_and_answers() {
    let names = names();
    let soa = "authority cluster.local. SOA";
    for (says, asked, kind, want) in [
        (
            "an address of a Service",
            "web.n.svc.cluster.local",
            1,
            vec!["ok", "web.n.svc.cluster.local. A 10.0.0.2"],
        ),
        (
            "letters come back as they were",
            "WEB.n.SVC.cluster.local",
            1,
            vec!["ok", "WEB.n.SVC.cluster.local. A 10.0.0.2"],
        ),
        ("of another kind", "web.n.svc.cluster.local", 28, vec!["ok", soa]),
        (
            "of the sixth version",
            "six.n.svc.cluster.local",
            28,
            vec!["ok", "six.n.svc.cluster.local. AAAA fd00::1"],
        ),
        (
            "where the API server really is",
            "kubernetes.default.svc.cluster.local",
            1,
            vec!["ok", "kubernetes.default.svc.cluster.local. A 127.0.0.1"],
        ),
        (
            "ready pods of a headless Service, each first in its turn",
            "train.n.svc.cluster.local",
            1,
            vec!["ok", "train.n.svc.cluster.local. A 127.1.0.1", "train.n.svc.cluster.local. A 127.1.0.3"],
        ),
        (
            "all pods, where the Service does not mind",
            "early.n.svc.cluster.local",
            1,
            vec!["ok", "early.n.svc.cluster.local. A 127.1.0.4"],
        ),
        (
            "a pod by its name",
            "t-0.train.n.svc.cluster.local",
            1,
            vec!["ok", "t-0.train.n.svc.cluster.local. A 127.1.0.1"],
        ),
        (
            "before it is ready",
            "t-1.train.n.svc.cluster.local",
            1,
            vec!["ok", "t-1.train.n.svc.cluster.local. A 127.1.0.2"],
        ),
        (
            "a pod without a name",
            "127-1-0-3.train.n.svc.cluster.local",
            1,
            vec!["ok", "127-1-0-3.train.n.svc.cluster.local. A 127.1.0.3"],
        ),
        ("without an address it has no name", "gone.train.n.svc.cluster.local", 1, vec!["no such name", soa]),
        (
            "a port of a Service",
            "_http._tcp.web.n.svc.cluster.local",
            33,
            vec![
                "ok",
                "_http._tcp.web.n.svc.cluster.local. SRV 80 web.n.svc.cluster.local.",
                "beside web.n.svc.cluster.local. A 10.0.0.2",
            ],
        ),
        (
            "ports of pods",
            "_http._tcp.train.n.svc.cluster.local",
            33,
            vec![
                "ok",
                "_http._tcp.train.n.svc.cluster.local. SRV 8080 127-1-0-3.train.n.svc.cluster.local.",
                "_http._tcp.train.n.svc.cluster.local. SRV 8080 t-0.train.n.svc.cluster.local.",
                "beside 127-1-0-3.train.n.svc.cluster.local. A 127.1.0.3",
                "beside t-0.train.n.svc.cluster.local. A 127.1.0.1",
            ],
        ),
        ("no such port", "_http._udp.web.n.svc.cluster.local", 33, vec!["no such name", soa]),
        (
            "the name of an address",
            "1.0.1.127.in-addr.arpa",
            12,
            vec!["ok", "1.0.1.127.in-addr.arpa. PTR t-0.train.n.svc.cluster.local."],
        ),
        ("nothing of that name", "no.n.svc.cluster.local", 1, vec!["no such name", soa]),
        ("not a Service with a name elsewhere", "outside.n.svc.cluster.local", 1, vec!["no such name", soa]),
        ("names below it, and itself nothing", "n.svc.cluster.local", 1, vec!["ok", soa]),
        ("the domain", "cluster.local", 1, vec!["ok", soa]),
        ("part of a name is none", "rain.n.svc.cluster.local", 1, vec!["no such name", soa]),
        ("text", "web.n.svc.cluster.local", 16, vec!["ok", soa]),
    ] {
        let Answer::Reply(bytes) = answer(&query(asked, kind), &names, UDP) else { panic!("{says}") };
        assert_eq!(read(&bytes), want, "{says}");
        assert_eq!(bytes[..2], [0x12, 0x34], "{says}: it is the reply to this query");
        assert_eq!((bytes[2] & 0x85, bytes[3] & 0x80), (0x85, 0x80), "{says}: ours, with recursion");
    }
}

#[test]
fn other_names_are_forwarded() {
    for asked in ["example.org", "cluster.local.example.org", "mycluster.local", "9.9.9.127.in-addr.arpa", ""]
    {
        assert_eq!(answer(&query(asked, 1), &names(), UDP), Answer::Elsewhere, "{asked}");
    }
}

#[test]
fn invalid_queries() {
    let good = query("web.n.svc.cluster.local", 1);
    let changed = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        bytes
    };
    let code = |bytes: &[u8]| match answer(bytes, &names(), UDP) {
        Answer::Reply(reply) => read(&reply).remove(0),
        other => format!("{other:?}"),
    };
    for (says, bytes, want) in [
        ("nothing", Vec::new(), "Nothing"),
        ("half a header", good[..7].to_vec(), "Nothing"),
        ("a reply", changed(2, 0x80), "Nothing"),
        ("an update", changed(2, 0x28), "not here"),
        ("no question", changed(5, 0), "malformed"),
        ("two questions", changed(5, 2), "malformed"),
        ("a name that goes on elsewhere", changed(12, 0xc0), "malformed"),
        ("a name that ends too soon", good[..20].to_vec(), "malformed"),
        ("a label with a dot", changed(13, b'.'), "malformed"),
        ("no kind", good[..good.len() - 3].to_vec(), "malformed"),
        ("a name of 300 letters", query(&["x".repeat(60).as_str(); 5].join("."), 1), "malformed"),
    ] {
        assert_eq!(code(&bytes), want, "{says}");
    }
}

#[test]
fn oversized_replies_are_truncated() {
    let pods: Vec<(Tree, Text)> = (0..60)
        .map(|index| {
            let tree = tree!({"metadata": {"namespace": "n", "name": format!("p-{index}"), "labels": {"a": "b"}},
                "status": {"phase": "Running"}});
            (tree, Text::from(format!("127.1.0.{index}")))
        })
        .collect();
    let service = tree!({"metadata": {"name": "s", "namespace": "n"},
        "spec": {"clusterIP": "None", "selector": {"a": "b"}, "publishNotReadyAddresses": true}});
    let names = Names::of(&[service], &pods, None);
    let asked = query("s.n.svc.cluster.local", 1);
    let lines = |query: &[u8], room| match answer(query, &names, room) {
        Answer::Reply(bytes) => read(&bytes),
        other => panic!("{other:?}"),
    };
    assert_eq!(lines(&asked, UDP), ["ok cut"]);
    assert_eq!(lines(&asked, usize::from(u16::MAX)).len(), 61, "over TCP there is room");
    let wide = lines(&roomy(asked.clone(), 4096), UDP);
    assert_eq!(
        (wide.len(), wide.last().map(String::as_str)),
        (62, Some("beside OPT")),
        "or if the asker has it"
    );
    assert_eq!(lines(&roomy(asked, 0), UDP), ["ok cut"], "everybody has 512 bytes");
}

#[test]
fn records_are_rotated() {
    let firsts: std::collections::BTreeSet<String> = (0..4)
        .map(|id| {
            let mut asked = query("train.n.svc.cluster.local", 1);
            asked[1] = id;
            match answer(&asked, &names(), UDP) {
                Answer::Reply(bytes) => read(&bytes).remove(1),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert_eq!(firsts.len(), 2);
}

#[test]
fn a_zone_answers_with_current_records() {
    let book = Book::new(Some("127.0.0.1".parse().unwrap()));
    let service = |name: &str| tree!({"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterIP": "10.0.0.1"}});
    let first = |name: &str| match book.answer(&query(&format!("{name}.default.svc.cluster.local"), 1), UDP) {
        Answer::Reply(bytes) => read(&bytes).remove(1),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        first("kubernetes"),
        "kubernetes.default.svc.cluster.local. A 127.0.0.1",
        "it needs no Service"
    );
    assert_eq!(first("s"), "authority cluster.local. SOA");
    book.set(vec![service("kubernetes"), service("s")], Vec::new());
    assert_eq!(first("kubernetes"), "kubernetes.default.svc.cluster.local. A 127.0.0.1");
    assert_eq!(first("s"), "s.default.svc.cluster.local. A 10.0.0.1");
    book.set(vec![service("t")], Vec::new());
    assert_eq!(first("s"), "authority cluster.local. SOA");
}

#[test]
fn a_server_failure_is_a_valid_reply() {
    let bytes = failure(&query("example.org", 1)).unwrap();
    assert_eq!((read(&bytes), &bytes[..2]), (vec!["failed".to_owned()], &[0x12, 0x34][..]));
    assert_eq!(failure(&bytes), None, "a reply gets none");
}

proptest! {
    /// No input causes a panic or an oversized reply.
    #[test]
    fn arbitrary_bytes_are_handled(noise in prop::collection::vec(any::<u8>(), 0..80), at in 0_usize..60, with in any::<u8>()) {
        let names = names();
        let mut bent = roomy(query("_http._tcp.train.n.svc.cluster.local", 33), 1000);
        bent[at] = with;
        for bytes in [noise, bent] {
            if let Answer::Reply(reply) = answer(&bytes, &names, UDP) {
                prop_assert!(reply.len() <= 1232);
                prop_assert_eq!(&reply[..2], &bytes[..2]);
                read(&reply);
            }
        }
    }
}
