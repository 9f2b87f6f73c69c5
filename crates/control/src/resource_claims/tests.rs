use muster_api::client::WatchBatch;
use muster_tree::tree;

use super::*;
use crate::runtime::{ControlLoop, RuntimeInput, RuntimeOptions, RuntimeOutput};

fn object(tree: &Tree) -> ApiObject {
    let usual = tree!({"metadata": {"namespace": "ns", "uid": tree.str_at(&["metadata", "name"])}});
    ApiObject { tree: usual.merge(tree), revision: 5 }
}

fn template() -> ApiObject {
    object(&tree!({"metadata": {"name": "t"}, "spec": {"metadata": {"labels": {"a": "b"}},
        "spec": {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu"}}]}}}}))
}

/// A pod that names the template `t` as `x`.
fn pod(change: &Tree) -> ApiObject {
    let usual = tree!({"kind": "Pod", "metadata": {"name": "p"},
        "spec": {"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]}});
    object(&usual.merge(change))
}

/// The claim `c` of that pod, given devices and reserved for these.
fn claim(reserved: &[&str], change: &Tree) -> ApiObject {
    let consumer = |uid: &&str| tree!({"resource": "pods", "name": *uid, "uid": *uid});
    let usual = tree!({"metadata": {"name": "c", "finalizers": ["resource.kubernetes.io/delete-protection"],
            "annotations": {"resource.kubernetes.io/pod-claim-name": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": true}]},
        "status": {"allocation": {"devices": {"results": []}},
            "reservedFor": Tree::list(reserved.iter().map(consumer))}});
    object(&usual.merge(change))
}

fn sent(outputs: Vec<RuntimeOutput>) -> Vec<ApiRequest> {
    let calls = outputs.into_iter().filter_map(|output| match output {
        RuntimeOutput::Send(_, calls) => Some(calls.as_slice().to_vec()),
        _ => None,
    });
    calls.flatten().collect()
}

/// What is called first when this is there.
fn calls(pods: Vec<ApiObject>, claims: Vec<ApiObject>, templates: Vec<ApiObject>) -> Vec<String> {
    let mut it =
        ControlLoop::new(vec![Box::<ResourceClaimController>::default()], &[], RuntimeOptions::default());
    let mut calls = Vec::new();
    for (kind, objects) in [
        (&kinds::PODS, pods),
        (&kinds::RESOURCE_CLAIMS, claims),
        (&kinds::RESOURCE_CLAIM_TEMPLATES, templates),
    ] {
        calls.extend(sent(
            it.handle(RuntimeInput::Watched(kind.clone(), WatchBatch::Restarted(objects)), Time(0)),
        ));
    }
    calls.iter().map(spoken).collect()
}

fn spoken(call: &ApiRequest) -> String {
    let on = format!("{} {}", call.target.plural_part(), call.target.name);
    match &call.verb {
        RequestVerb::Get => format!("get {on}"),
        RequestVerb::Create(tree) if call.target.kind == kinds::EVENTS => {
            format!("note {}", tree.str_at(&["message"]))
        }
        RequestVerb::Create(_) => format!("create {on}"),
        RequestVerb::Apply { body, .. } => {
            format!("apply {on} {}", body.at(&["status"]).unwrap_or(&Tree::Null).to_json())
        }
        RequestVerb::MergePatch(patch) => format!("merge {on} {}", patch.to_json()),
        RequestVerb::Delete { .. } => format!("delete {on}"),
        RequestVerb::StrategicMergePatch(_) => format!("patch {on}"),
    }
}

trait Spoken {
    fn plural_part(&self) -> String;
}

impl Spoken for muster_api::client::RequestTarget {
    fn plural_part(&self) -> String {
        match self.subresource {
            Subresource::Status => format!("{}/status", self.kind.plural),
            _ => self.kind.plural.to_string(),
        }
    }
}

const FREED: &str =
    r#"merge resourceclaims/status c {"status":{"allocation":null,"devices":null,"reservedFor":null}}"#;
const UNPROTECTED: &str = r#"merge resourceclaims c {"metadata":{"finalizers":null}}"#;

#[test]
fn what_is_called_first() {
    let ended = || pod(&tree!({"status": {"phase": "Succeeded"}}));
    let running =
        || pod(&tree!({"status": {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "c"}]}}));
    let bound = || {
        let spec = tree!({"spec": {"nodeName": "n"}});
        object(&running().tree.merge(&spec))
    };
    let name = format!("p-x-{}", suffix("p/x", None, 0));
    let none = tree!({});
    let bare = tree!({"status": Tree::Null});
    let deleting = tree!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let recorded =
        "apply pods/status p {\"resourceClaimStatuses\":[{\"name\":\"x\",\"resourceClaimName\":\"c\"}]}";
    for (says, pods, claims, templates, want) in [
        ("a claim is made", vec![pod(&none)], vec![], vec![template()], vec![format!("create resourceclaims {name}")]),
        (
            "without its template a pod gets none, and is told",
            vec![pod(&none)],
            vec![],
            vec![],
            vec!["note PodResourceClaim x: resource claim template \"t\": resourceclaimtemplate.resource.k8s.io \"t\" not found".to_owned()],
        ),
        ("one that was made already is found again", vec![pod(&none)], vec![claim(&[], &bare)], vec![template()], vec![recorded.to_owned()]),
        ("a pod that has ended gets none", vec![ended()], vec![], vec![template()], vec![]),
        ("a pod that is deleted gets none", vec![pod(&deleting)], vec![], vec![template()], vec![]),
        ("the reservation of one who runs stays", vec![bound()], vec![claim(&["p"], &none)], vec![], vec![]),
        ("without a node nothing is reserved", vec![running()], vec![claim(&[], &none)], vec![], vec![]),
        (
            "with a node it is",
            vec![bound()],
            vec![claim(&[], &none)],
            vec![],
            vec![r#"merge resourceclaims/status c {"status":{"reservedFor":[{"name":"p","resource":"pods","uid":"p"}]}}"#.to_owned()],
        ),
        ("one who has ended needs nothing", vec![ended()], vec![claim(&["p"], &none)], vec![], vec![FREED.to_owned()]),
        ("one we have not heard of is looked at first", vec![], vec![claim(&["q"], &none)], vec![], vec!["get pods q".to_owned()]),
        ("the last claim of one who has ended goes", vec![ended()], vec![claim(&[], &bare)], vec![], vec!["delete resourceclaims c".to_owned()]),
        ("a claim that goes gives its devices back", vec![], vec![claim(&[], &deleting)], vec![], vec![FREED.to_owned()]),
        ("and then its finalizer", vec![], vec![claim(&[], &deleting.with(&["status"], Tree::Null))], vec![], vec![UNPROTECTED.to_owned()]),
        ("whom the scheduler just protected is left alone", vec![running()], vec![claim(&[], &bare)], vec![], vec![]),
    ] {
        assert_eq!(calls(pods, claims, templates), want, "{says}");
    }
}

#[test]
fn long_names_are_cut_where_they_come_from() {
    let base = resource_claim::generate_name(&"p".repeat(60), &"c".repeat(40));
    assert!(base.len() <= 58 && base.starts_with("ppp") && base.contains("-ccc"), "{base}");
    assert_eq!(resource_claim::generate_name("p", "c"), "p-c-");
}
