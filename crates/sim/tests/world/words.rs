//! Checks every path, kind and builder of `api` against the schema table, so that a misspelt field fails.

use muster_api::client::{ApiObject, Kind};
use muster_api::condition::DesiredCondition;
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::gang_objects::{
    self, GangApi, GangOwner, GangSupport, GroupMarker, NewPodGroup, PodGroupMember, PodGroupTemplate,
    TemplatePolicy,
};
use muster_api::job::JobStatus;
use muster_api::job_pod::{self, IndexFailures, NewPod, new_pod};
use muster_api::pod_status::{PodAddresses, SimulatedContainers};
use muster_api::time::Time;
use muster_api::{kinds, lease, node, paths, pod, pod_status, volume};
use muster_schema::node::{SchemaRef, View};
use muster_schema::table::{KindRow, builtin};
use muster_schema::{crd, structure};
use muster_tree::{Tree, tree};

fn walk<'a>(view: View<'a>, path: &[&str]) -> Option<View<'a>> {
    path.iter().try_fold(view, |view, step| if *step == "[]" { view.item() } else { view.below(step) })
}

/// The JobSet CRD and its schema, if that is the group.
fn custom(group: &str) -> Option<(Tree, SchemaRef)> {
    let definition = muster_jobset::crd::manifest();
    if definition.str_at(&["spec", "group"]) != group {
        return None;
    }
    let version = &definition.items_at(&["spec", "versions"])[0];
    let schema = crd::compile(version.at(&["schema", "openAPIV3Schema"]).unwrap()).unwrap();
    Some((definition, schema))
}

/// The schema of a kind, built in or ours.
fn schema_of((group, version, kind): (&str, &str, &str)) -> Option<SchemaRef> {
    let Some((definition, schema)) = custom(group) else {
        return builtin().root(group, version, kind);
    };
    let spec = definition.get("spec")?;
    let served = spec.items_at(&["versions"])[0].str_at(&["name"]) == version;
    (served && spec.str_at(&["names", "kind"]) == kind).then_some(schema)
}

/// Whether one of our CRDs serves this.
fn is_defined(kind: &Kind) -> bool {
    custom(&kind.group).is_some_and(|(definition, _)| {
        let spec = definition.get("spec").unwrap();
        spec.str_at(&["names", "plural"]) == kind.plural.as_str()
            && spec.items_at(&["versions"])[0].str_at(&["name"]) == kind.version.as_str()
            && (spec.str_at(&["scope"]) == "Cluster") == kinds::is_cluster_scoped(kind)
    })
}

#[test]
fn every_path_is_in_the_schema() {
    for table in paths::TABLES {
        let kind = table.kind.2;
        let schema = schema_of(table.kind).unwrap_or_else(|| panic!("{kind} is not served"));
        let root = walk(schema.view(), table.root).unwrap_or_else(|| panic!("{kind}: {:?}", table.root));
        for path in table.paths {
            assert!(walk(root, path).is_some(), "{kind}: {:?} {path:?}", table.root);
        }
    }
}

#[test]
fn kinds_and_verbs_are_served() {
    for (name, kind) in kinds::all() {
        let built_in = builtin().row(&kind.group, &kind.version, &kind.plural).is_some();
        assert!(built_in || is_defined(kind), "{name}");
    }
    let listed = |row: &&KindRow| row.verbs.iter().any(|verb| verb.as_str() == "list");
    let mut wrong = Vec::new();
    for row in builtin().kinds.iter().filter(listed) {
        let kind = muster_api::client::Kind {
            group: (&*row.group).into(),
            version: (&*row.version).into(),
            plural: (&*row.plural).into(),
        };
        assert!(kinds::is_plural(&row.plural, &row.kind), "{} {}", row.kind, row.plural);
        if kinds::is_cluster_scoped(&kind) == row.namespaced {
            wrong.push(kind.plural);
        }
    }
    assert!(wrong.is_empty(), "scope: {wrong:?}");
}

#[test]
fn what_builders_make_has_no_unknown_field() {
    let now = Time::parse("2026-01-01T00:00:00Z").unwrap();
    let job = tree!({"metadata": {"name": "j", "namespace": "n", "uid": "u"},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let made = new_pod(
        &job,
        &NewPod {
            index: Some(1),
            suffix: "abcde".into(),
            index_failures: Some(IndexFailures { counted: 1, ignored: 1 }),
        },
    );
    let about = ObjectReference::of(&kinds::JOBS, "Job", &job);
    let note = Event {
        action: "A".into(),
        reporting_controller: "b".into(),
        regarding: about,
        event_type: EventType::Normal,
        reason: "R".into(),
        message: "m".into(),
    };
    let status = JobStatus {
        active: 1,
        ready: Some(1),
        completed_indexes: "0".into(),
        failed_indexes: Some("1".into()),
        has_uncounted_field: true,
        ..JobStatus::default()
    };
    let wanted =
        DesiredCondition { condition_type: "PodScheduled", status: false, reason: "R", message: "m" };
    let addresses = PodAddresses { host: "h".into(), pod: "p".into() };
    let size = tree!({"storage": "1Gi"});
    let claim = ApiObject {
        tree: tree!({"metadata": {"namespace": "n", "name": "c", "uid": "u", "labels": {"a": "b"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size.clone()}}}),
        revision: 1,
    };
    let class = tree!({"metadata": {"name": "s"}, "reclaimPolicy": "Delete", "mountOptions": ["ro"]});
    let held = tree!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": size, "volumeAttributesClassName": "x"}});
    let sim = node::simulated_node(&"n".into(), &tree!({"cpu": "1"}));
    let pod_status = |doing| ("", "v1", "Pod", pod_status::simulated_patch(&made, &addresses, &doing, now));
    let (since, until, code, restarts) = (now, now, 1, 2);
    let all: Vec<(&str, &str, &str, Tree)> = vec![
        ("", "v1", "Binding", pod::binding(&"n".into(), &"p".into(), &"u".into(), &"node".into())),
        ("", "v1", "Pod", pod::condition_patch(&tree!({"metadata": {"generation": 1}}), &wanted, now)),
        ("", "v1", "PersistentVolume", volume::bind_patch(&claim, true)),
        ("", "v1", "PersistentVolume", volume::host_path_volume(&claim, &class, "/v", Some(&"n".into()))),
        ("", "v1", "PersistentVolume", volume::in_phase("Failed", "m")),
        ("", "v1", "PersistentVolumeClaim", volume::name_volume(&"v".into(), true)),
        ("", "v1", "PersistentVolumeClaim", volume::claim_for(&made, &"c".into(), &claim.tree)),
        ("", "v1", "PersistentVolumeClaim", volume::with_volume(&tree!({}), &held).unwrap()),
        ("batch", "v1", "Job", tree!({"status": status.tree(&Tree::Null)})),
        ("", "v1", "Event", note.tree(&"e".into(), "m", 2, now, now)),
        ("", "v1", "Event", note.series_patch("m", 2, now)),
        ("coordination.k8s.io", "v1", "Lease", lease::of_node(&"n".into(), &"u".into(), now)),
        ("coordination.k8s.io", "v1", "Lease", lease::renewal(now)),
        ("", "v1", "Node", node::MachineInfo::simulated(tree!({"cpu": "1"}), "a").ready_status(&sim, now)),
        ("", "v1", "Node", sim.clone()),
        pod_status(SimulatedContainers::Creating),
        pod_status(SimulatedContainers::Running { since, restarts }),
        pod_status(SimulatedContainers::Waiting { since, until, code, restarts }),
        pod_status(SimulatedContainers::Ended { since, until, code, restarts }),
        ("", "v1", "Pod", made.clone()),
        ("", "v1", "Pod", job_pod::adopt_patch(&job)),
    ];
    let all = all.into_iter().chain(gangs(&job, &made));
    for (group, version, kind, tree) in all {
        let schema = builtin().root(group, version, kind).unwrap();
        let mut unknown = Vec::new();
        let _ = structure::prune(schema.view(), &tree, &mut unknown);
        assert!(unknown.is_empty(), "{kind}: {unknown:?} in {tree}");
        assert_eq!(structure::check_types(schema.view(), &tree), Ok(()), "{kind}: {tree}");
    }
}

/// The objects that gang builders create, in the API forms of the table.
fn gangs(job: &Tree, pod: &Tree) -> Vec<(&'static str, &'static str, &'static str, Tree)> {
    let maker = GangOwner::of(&kinds::JOBS, "Job", job);
    let (workload, name, uid) = ("w".into(), "g".into(), "u".into());
    let more = tree!({"disruptionMode": {"all": {}}, "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "resourceClaims": [{"name": "c", "resourceClaimName": "c"}], "priorityClassName": "high"});
    let templates = [
        PodGroupTemplate { passthrough: more, ..PodGroupTemplate::new("a", TemplatePolicy::Gang { min: 2 }) },
        PodGroupTemplate::new("b", TemplatePolicy::Basic),
    ];
    let mut all = Vec::new();
    for (form, version) in
        [(GangApi::Proposal, "v1alpha1"), (GangApi::Legacy, "v1alpha1"), (GangApi::Released, "v1beta1")]
    {
        let group = "scheduling.k8s.io";
        let templates = if form == GangApi::Legacy { &templates[1..] } else { &templates[..] };
        let made = gang_objects::workload(form, &maker, &workload, templates);
        all.extend(
            gang_objects::resize_template(&made, "a", 3)
                .map(|patch| (group, version, "Workload", made.merge(&patch))),
        );
        all.push((group, version, "Workload", made));
        let new = NewPodGroup {
            name: &name,
            workload: &workload,
            workload_uid: Some(&uid),
            template: &templates[0],
            labels: tree!({"a": "b"}),
        };
        if form.groups().is_some() {
            all.push((group, version, "PodGroup", gang_objects::group(form, &maker, &new)));
        }
        let member = PodGroupMember {
            workload: workload.clone(),
            template: "a".into(),
            group: name.clone(),
            group_uid: Some(uid.clone()),
        };
        for mark in [GroupMarker::Field, GroupMarker::Annotations] {
            all.push(("", "v1", "Pod", member.mark_pod(GangSupport { api: form, marker: mark }, pod)));
        }
    }
    all
}
