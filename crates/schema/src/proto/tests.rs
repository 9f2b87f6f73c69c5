//! Bodies as Go clients send them, and bodies that no client sends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_tree::tree;
use proptest::prelude::*;

use super::*;
use crate::testing::differences;
use crate::zero;

const VECTORS: &[u8] = include_bytes!("../../tests/vectors.json.lz4");

/// Objects in both forms: name, JSON, protobuf.
fn vectors() -> &'static [(Text, Tree, Vec<u8>)] {
    static ALL: OnceLock<Vec<(Text, Tree, Vec<u8>)>> = OnceLock::new();
    ALL.get_or_init(read_vectors)
}

fn read_vectors() -> Vec<(Text, Tree, Vec<u8>)> {
    let all = Tree::parse(&table::decompress(VECTORS)).expect("vectors are JSON");
    let one = |v: &Tree| {
        let bytes = STANDARD.decode(v.str_at(&["proto"])).expect("base64");
        (v.text_at(&["name"]), v.get("json").expect("JSON").clone(), bytes)
    };
    all.items().iter().map(one).collect()
}

fn root(object: &Tree) -> Option<crate::node::NodeId> {
    let version = object.str_at(&["apiVersion"]);
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    table::builtin().root(group, version, object.str_at(&["kind"])).map(|root| root.id)
}

fn body(name: &str) -> &'static [u8] {
    let found = vectors().iter().find(|(n, ..)| n == name);
    &found.unwrap_or_else(|| panic!("no vector {name}")).2
}

#[test]
fn protobuf_reads_as_the_json_of_the_same_object() {
    for (name, json, bytes) in vectors() {
        let decoded = decode(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        let absent = |tree: &Tree| match root(json) {
            Some(id) => zero::absent(table::builtin(), id, tree),
            None => tree.clone(),
        };
        assert_eq!(differences(&absent(&decoded.tree), &absent(json)), Vec::<String>::new(), "{name}");
        assert_eq!(decoded.kind, json.str_at(&["kind"]), "{name}");
    }
}

#[test]
fn json_is_written_as_the_bytes_that_go_writes() {
    for (name, json, bytes) in vectors() {
        let written = encode(json).unwrap_or_else(|e| panic!("{name}: {e}"));
        let read = decode(&written).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(differences(&read.tree, &decode(bytes).unwrap().tree), Vec::<String>::new(), "{name}");
        assert_eq!(&written, bytes, "{name}");
    }
}

#[test]
fn lists_and_events_are_written_and_read() {
    let pods = tree!({
        "apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7"},
        "items": [{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}],
    });
    let read = decode(&encode(&pods).unwrap()).unwrap().tree;
    assert_eq!(read.at(&["metadata", "resourceVersion"]), Some(&tree!("7")));
    assert_eq!(read.items_at(&["items"])[0].str_at(&["metadata", "name"]), "a");
    let status = tree!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 410});
    let (kind, event) = decode_event(&encode_event("ERROR", &status).unwrap()).unwrap();
    assert_eq!((kind.as_str(), event.tree.int_at(&["code"])), ("ERROR", Some(410)));
    let partial = tree!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
        "metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}}],
    });
    let read = decode(&encode(&partial).unwrap()).unwrap().tree;
    assert_eq!(read.items_at(&["items"])[0].str_at(&["metadata", "name"]), "a");
    assert_eq!(read.str_at(&["metadata", "resourceVersion"]), "7");
    let older = partial.with_key("apiVersion", tree!("meta.k8s.io/v1beta1"));
    assert!(encode(&older).is_err(), "another message of the same name");
}

#[test]
fn kinds_without_a_protobuf_form_are_rejected() {
    for (object, words) in [
        (tree!({"apiVersion": "a.b/v1", "kind": "Gear"}), "no kind \"Gear\""),
        (tree!({"apiVersion": "meta.k8s.io/v1", "kind": "Table"}), "no kind \"Table\""),
        (tree!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": 1}}), "cannot be written"),
        (tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}}), "cannot be written"),
    ] {
        let problem = encode(&object).expect_err("no object of a kind with a protobuf form").to_string();
        assert!(problem.contains(words), "{problem}");
    }
}

#[test]
fn written_zero_values_are_those_that_go_writes() {
    for (name, json, _) in vectors() {
        let Some(id) = root(json) else { continue };
        let absent = zero::absent(table::builtin(), id, json);
        assert_eq!(&zero::written(table::builtin(), id, &absent), json, "{name}");
    }
}

#[test]
fn zero_values_that_matter_stay() {
    for (name, path, want) in [
        ("a Job that may not fail", &["spec", "backoffLimit"][..], tree!(0)),
        ("a Job that may not fail", &["spec", "suspend"], tree!(false)),
        ("a claim without a class", &["spec", "storageClassName"], tree!("")),
        ("an account without a token", &["automountServiceAccountToken"], tree!(false)),
        ("a ConfigMap with an empty value", &["data", "b"], tree!("")),
        ("a Lease", &["spec", "renewTime"], tree!("2026-07-08T09:10:11.123456Z")),
        ("an Event", &["firstTimestamp"], tree!("2026-07-08T09:10:11Z")),
        ("DeleteOptions", &["gracePeriodSeconds"], tree!(0)),
        ("a Node", &["status", "capacity", "cpu"], tree!("0")),
    ] {
        let decoded = decode(body(name)).expect("a good body");
        assert_eq!(decoded.tree.at(path), Some(&want), "{name} {path:?}");
    }
    let job = decode(body("a Job that may not fail")).expect("a good body").tree;
    assert_eq!(job.get("status"), None);
    assert_eq!(job.at(&["metadata", "creationTimestamp"]), None);
}

#[test]
fn bad_bodies_are_refused_with_a_sentence() {
    let good = body("a Pod");
    let unknown = [b"k8s\0\x0a\x0b\x0a\x04a/v1\x12\x03Pot".as_slice(), b"\x12\x00"].concat();
    for (bytes, words) in [
        (b"{}".to_vec(), "expected prefix 6b387300"),
        (Vec::new(), "expected prefix 6b387300"),
        (b"k8s\0".to_vec(), "no kind"),
        (unknown, "no kind \"Pot\""),
        (good[..good.len() / 2].to_vec(), "buffer"),
    ] {
        let problem = decode(&bytes).expect_err("a bad body").to_string();
        assert!(problem.contains(words), "{problem}");
    }
}

proptest! {
    #[test]
    fn damaged_bodies_never_panic(which in 0usize..20, at in any::<prop::sample::Index>(), byte: u8, cut: bool) {
        let mut bytes = vectors()[which].2.clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if cut {
            bytes.truncate(at);
        }
        let _ = decode(&bytes);
    }
}
