use muster_tree::{Tree, tree};

use super::field_path::FieldPath;
use super::quantity::Quantity;
use super::{
    FieldErrors, GenerationRule, ResourceStrategy, StrategyContext, pod_check, pod_defaults, pod_parts,
    pod_update,
};
use crate::quota::has_pod_level;
use crate::status::Status;

#[derive(Debug)]
pub(super) struct Pod;

const SPEC: FieldPath<'static> = FieldPath::Root("spec");

impl ResourceStrategy for Pod {
    fn default(&self, tree: Tree) -> Tree {
        let Some(spec) = tree.get("spec") else {
            return tree;
        };
        let spec = pod_defaults::requests(&pod_defaults::spec(spec));
        with_addresses(tree.with_key("spec", with_service_account(spec)))
    }

    fn prepare_create(&self, tree: Tree, cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        let tree = match tree.get("spec") {
            Some(spec) => tree.with_key("spec", pod_defaults::pod_level(spec)),
            None => tree,
        };
        let quality = quality(tree.get("spec").unwrap_or(&Tree::Null));
        let mut tree = tree.with_key("status", tree!({"phase": "Pending", "qosClass": quality}));
        // As upstream: a negative grace period means 1 second.
        if tree.int_at(&["spec", "terminationGracePeriodSeconds"]).is_some_and(|n| n < 0) {
            tree = tree.with(&["spec", "terminationGracePeriodSeconds"], 1);
        }
        let gated = !tree.items_at(&["spec", "schedulingGates"]).is_empty();
        Ok(if gated { tree.with(&["status", "conditions"], Tree::list([gated_condition(cx)])) } else { tree })
    }

    fn prepare_update(&self, new: Tree, old: &Tree, cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        // A client that does not know pod-level resources does not remove them.
        let own = ["spec", "resources"];
        let new = match (new.at(&own), old.at(&own)) {
            (None, Some(before)) => new.with(&own, before.clone()),
            _ => new,
        };
        Ok(pod_update::keep_other_parts(new, old, cx.subresource))
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        pod_check::spec(new.get("spec").unwrap_or(&Tree::Null), &SPEC, errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        match cx.subresource {
            "" => pod_update::check(new, old, errors),
            "ephemeralcontainers" => pod_parts::ephemeral(new, old, errors),
            "resize" => pod_parts::resize(new, old, errors),
            _ => {}
        }
        // Validate only a changed spec: an unchanged one was valid when stored.
        if new.get("spec") != old.get("spec") {
            pod_check::spec(new.get("spec").unwrap_or(&Tree::Null), &SPEC, errors);
        }
    }

    fn validate_status(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        pod_update::check_status(new, old, errors);
    }

    fn prepare_status(&self, new: Tree, old: &Tree, _cx: &StrategyContext<'_>) -> Tree {
        // The QoS class is derived from the spec and survives a status update without it.
        let keep = new.at(&["status", "qosClass"]).is_none();
        match old.at(&["status", "qosClass"]) {
            Some(class) if keep => new.with(&["status", "qosClass"], class.clone()),
            _ => new,
        }
    }

    fn grace_period_secs(&self, tree: &Tree, asked: Option<i64>) -> Option<i64> {
        let own = tree.int_at(&["spec", "terminationGracePeriodSeconds"]).unwrap_or(30);
        let secs = asked.unwrap_or(own);
        // Without a running container (unscheduled or terminated) a pod is removed at once; no kubelet would confirm
        // the deletion.
        let idle = tree.str_at(&["spec", "nodeName"]).is_empty()
            || matches!(tree.str_at(&["status", "phase"]), "Succeeded" | "Failed");
        Some(if idle {
            0
        } else if secs < 0 {
            1
        } else {
            secs
        })
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ]
    }

    fn field(&self, tree: &Tree, path: &str) -> String {
        match path {
            "spec.hostNetwork" => tree.bool_at(&["spec", "hostNetwork"]).unwrap_or(false).to_string(),
            "status.podIPs" => {
                let all = tree.items_at(&["status", "podIPs"]).iter().map(|ip| ip.str_at(&["ip"]));
                all.collect::<Vec<_>>().join(",")
            }
            _ => super::field_text(tree, path),
        }
    }

    fn generation(&self) -> GenerationRule {
        GenerationRule::Spec
    }

    fn warnings(&self, new: &Tree, old: Option<&Tree>) -> Vec<String> {
        let changed = old.is_none_or(|old| old.get("spec") != new.get("spec"));
        if changed { pod_check::warnings(new.get("spec"), "spec") } else { Vec::new() }
    }
}

/// The deprecated alias `serviceAccount` mirrors `serviceAccountName`.
fn with_service_account(spec: Tree) -> Tree {
    match (spec.str_at(&["serviceAccountName"]), spec.str_at(&["serviceAccount"])) {
        ("", "") => spec,
        ("", old) => spec.with(&["serviceAccountName"], old),
        (new, old) if new != old => spec.with(&["serviceAccount"], new),
        _ => spec,
    }
}

/// `podIP` mirrors the first of `podIPs`; where they differ, `podIP` wins.
fn with_addresses(tree: Tree) -> Tree {
    let one = tree.text_at(&["status", "podIP"]);
    let first = tree.items_at(&["status", "podIPs"]).first().map(|ip| ip.text_at(&["ip"]));
    match first {
        Some(first) if one.is_empty() => tree.with(&["status", "podIP"], first),
        Some(first) if first == one => tree,
        _ if one.is_empty() => tree,
        _ => tree.with(&["status", "podIPs"], tree!([{"ip": &one}])),
    }
}

fn gated_condition(cx: &StrategyContext<'_>) -> Tree {
    tree!({
        "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": null,
        "lastTransitionTime": cx.now.to_seconds_text(), "message": "Scheduling is blocked due to non-empty scheduling gates",
    })
}

/// The QoS class of a pod.
pub(crate) fn quality(spec: &Tree) -> &'static str {
    let own = has_pod_level(spec).then_some(spec).into_iter();
    // Pod-level resources replace those of the containers in the QoS class.
    let containers = spec.items_at(&["containers"]).iter().chain(spec.items_at(&["initContainers"]));
    let containers = || own.clone().chain(containers.clone().filter(|_| own.len() == 0));
    let counted = |tree: &Tree, part: &str, name: &str| {
        tree.at(&["resources", part, name]).and_then(Quantity::of).filter(|q| *q > Quantity::ZERO)
    };
    let mut any = false;
    let mut guaranteed = true;
    for container in containers() {
        for name in ["cpu", "memory"] {
            let (request, limit) = (counted(container, "requests", name), counted(container, "limits", name));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
