//! Semantic comparison of `replicatedJobs`, and the first field that differs.
//!
//! A Go client that reads and writes a JobSet drops zero values with `omitempty`, adds zero values without it, and writes
//! quantities in canonical form. Such changes must not count as a change of an immutable field. The schema table knows
//! these fields from the Go types; none is listed here. User-defined keys (labels, selectors, resources) and claim
//! templates are compared as they are.

use muster_api::paths::replicated_job as job;
use muster_api::quantity;
use muster_schema::node::View;
use muster_schema::table::builtin;
use muster_schema::zero;
use muster_tree::Tree;

/// The schema component of the template of a replicatedJob.
const TEMPLATE: &str = "io.k8s.api.batch.v1.JobTemplateSpec";

/// The first difference, as a message: the replicatedJob and the field. `None` if they are equal.
pub(super) fn difference(old: &Tree, new: &Tree) -> Option<String> {
    let (old, new) = (old.items(), new.items());
    let name = |it: &Tree| it.text_at(job::NAME);
    let [before, after] = [old, new].map(|all| all.iter().map(name).collect::<Vec<_>>());
    if let Some(gone) = before.iter().find(|it| !after.contains(it)) {
        return Some(format!("replicatedJob {gone} is removed"));
    }
    if let Some(more) = after.iter().find(|it| !before.contains(it)) {
        return Some(format!("replicatedJob {more} is added"));
    }
    if before != after {
        return Some("replicatedJobs are in another order".to_owned());
    }
    let changed = |(old, new): (&Tree, &Tree)| Some((name(new), changed_field(old, new)?));
    let (of, field) = old.iter().zip(new).find_map(changed)?;
    Some(format!("replicatedJob {of}: {field}"))
}

/// The path of the first field of a replicatedJob that differs.
fn changed_field(one: &Tree, other: &Tree) -> Option<String> {
    let differs = |key: &str| {
        let (one, other) = (said(one, key), said(other, key));
        let below = match *job::TEMPLATE == [key] {
            true => changed_in_template(one, other),
            false => place(None, one, other),
        };
        below.map(|below| format!("{key}{below}"))
    };
    keys(one, other).find_map(differs)
}

/// A field; an empty list counts as unset.
fn said<'a>(map: &'a Tree, key: &str) -> &'a Tree {
    map.get(key).filter(|it| !(it.is_list() && it.is_empty())).unwrap_or(&Tree::Null)
}

fn changed_in_template(one: &Tree, other: &Tree) -> Option<String> {
    let table = builtin();
    let id = table.component(TEMPLATE).expect("Jobs are built in").node;
    let [one, other] = [one, other].map(|it| zero::written(table, id, &zero::absent(table, id, it)));
    place(Some(View { schema: &table.schema, id }), &one, &other)
}

/// The path of the first difference, quantities compared by value; empty if the values themselves differ.
fn place(view: Option<View<'_>>, one: &Tree, other: &Tree) -> Option<String> {
    if one.same_branch(other) {
        return None;
    }
    match (one, other) {
        _ if view.is_some_and(|view| view.node().format == "quantity") => {
            (value(one) != value(other)).then(String::new)
        }
        (Tree::Map(_), Tree::Map(_)) => keys(one, other).find_map(|key| {
            let (one, other) = (one.get(key).unwrap_or(&Tree::Null), other.get(key).unwrap_or(&Tree::Null));
            let below = place(view.and_then(|view| view.below(key)), one, other)?;
            Some(if key.contains(['.', '/']) { format!("[{key}]{below}") } else { format!(".{key}{below}") })
        }),
        (Tree::List(_), Tree::List(_)) if one.items().len() == other.items().len() => {
            let mut pairs = one.items().iter().zip(other.items()).enumerate();
            pairs.find_map(|(at, (one, other))| {
                let below = place(view.and_then(View::item), one, other)?;
                Some(format!("[{at}]{below}"))
            })
        }
        _ => (one != other).then(String::new),
    }
}

/// The keys of both maps; common keys occur twice.
fn keys<'a>(one: &'a Tree, other: &'a Tree) -> impl Iterator<Item = &'a str> {
    one.entries().iter().chain(other.entries()).map(|(key, _)| key.as_str())
}

/// Whether two quantities are equal.
pub(super) fn is_same_quantity(one: &Tree, other: &Tree) -> bool {
    value(one) == value(other)
}

/// Whether `given` is at least `wanted`. If `wanted` is unset `given` must be, too; invalid quantities are compared as
/// they are.
pub(super) fn is_covered_by(wanted: &Tree, given: &Tree) -> bool {
    match (value(wanted), value(given)) {
        (Ok(wanted), Ok(given)) => given >= wanted,
        (wanted, given) => wanted == given,
    }
}

/// The value of a quantity, or the tree itself if it is none.
fn value(tree: &Tree) -> Result<i128, &Tree> {
    match tree {
        Tree::Text(_) | Tree::Int(_) => quantity::nanos(&quantity::text(tree)).ok_or(tree),
        other => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    /// Compares lists of one replicatedJob that differ in this field.
    fn check(says: &str, path: &[&str], one: &Tree, other: &Tree, want: bool) {
        let job = |value: &Tree| {
            let job = tree!({"name": "w", "template": {"spec": {"template": {"spec": {}}}}});
            Tree::list([if value.is_null() { job } else { job.with(path, value.clone()) }])
        };
        assert_eq!(difference(&job(one), &job(other)).is_none(), want, "{says}");
        assert_eq!(difference(&job(other), &job(one)).is_none(), want, "{says}, the other way round");
    }

    fn pods(spec: &Tree) -> Tree {
        tree!({"containers": [{"name": "c"}]}).merge(spec)
    }

    fn container(part: &Tree) -> Tree {
        pods(&tree!({"containers": [(tree!({"name": "c"}).merge(part))]}))
    }

    fn volume(part: &Tree) -> Tree {
        pods(&tree!({"volumes": [(tree!({"name": "v"}).merge(part))]}))
    }

    #[test]
    fn what_is_said_of_pods_counts_and_not_how() {
        let none = tree!({});
        let field = |rest: Tree| {
            container(
                &tree!({"env": [{"name": "e", "valueFrom": {"resourceFieldRef": tree!({"resource": "limits.cpu"}).merge(&rest)}}]}),
            )
        };
        let probe =
            |rest: Tree| container(&tree!({"livenessProbe": tree!({"tcpSocket": {"port": 1}}).merge(&rest)}));
        let ephemeral = |size: &str| {
            volume(
                &tree!({"ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": size}}}}}}),
            )
        };
        let class = |spec: Tree| volume(&tree!({"ephemeral": {"volumeClaimTemplate": {"spec": spec}}}));
        let asks = |part: &str, amounts: Tree| container(&tree!({"resources": Tree::map([(part, amounts)])}));
        let plain = pods(&none);
        for (says, one, other, alike) in [
            ("the same", container(&tree!({"image": "i"})), container(&tree!({"image": "i"})), true),
            ("another image", container(&tree!({"image": "i"})), container(&tree!({"image": "j"})), false),
            ("an empty list", container(&tree!({"command": []})), plain.clone(), true),
            ("null", tree!({"containers": [{"name": "c", "command": null}]}), plain.clone(), true),
            ("one more", container(&tree!({"args": ["a"]})), container(&tree!({"args": ["a", "a"]})), false),
            (
                "another order",
                container(&tree!({"args": ["a", "b"]})),
                container(&tree!({"args": ["b", "a"]})),
                false,
            ),
            ("what Go always writes", container(&tree!({"resources": {}})), plain.clone(), true),
            (
                "empty text",
                container(&tree!({"env": [{"name": "e", "value": ""}]})),
                container(&tree!({"env": [{"name": "e"}]})),
                true,
            ),
            ("empty text among arguments", container(&tree!({"args": [""]})), plain.clone(), false),
            ("no class at all", class(tree!({"storageClassName": ""})), class(none.clone()), false),
            ("switched off", pods(&tree!({"hostNetwork": false})), plain.clone(), true),
            ("off, where absent is on", pods(&tree!({"enableServiceLinks": false})), plain.clone(), false),
            (
                "off, where absent is not known",
                container(&tree!({"securityContext": {"runAsNonRoot": false}})),
                container(&tree!({"securityContext": {}})),
                false,
            ),
            (
                "root",
                container(&tree!({"securityContext": {"runAsUser": 0}})),
                container(&tree!({"securityContext": {}})),
                false,
            ),
            ("at once", pods(&tree!({"terminationGracePeriodSeconds": 0})), plain.clone(), false),
            (
                "numbers of probes",
                probe(
                    tree!({"timeoutSeconds": 0, "periodSeconds": 0, "failureThreshold": 0, "successThreshold": 0, "initialDelaySeconds": 0}),
                ),
                probe(none.clone()),
                true,
            ),
            ("another number", probe(tree!({"periodSeconds": 1})), probe(none.clone()), false),
            (
                "a part of a disk",
                volume(
                    &tree!({"awsElasticBlockStore": {"volumeID": "d", "partition": 0, "readOnly": false}}),
                ),
                volume(&tree!({"awsElasticBlockStore": {"volumeID": "d"}})),
                true,
            ),
            ("an empty folder", volume(&tree!({"emptyDir": {}})), volume(&none), false),
            ("any number", field(tree!({"divisor": "0"})), field(none.clone()), true),
            ("a divisor", field(tree!({"divisor": "1"})), field(none.clone()), false),
            (
                "half a core",
                asks("requests", tree!({"cpu": "0.5"})),
                asks("requests", tree!({"cpu": "500m"})),
                true,
            ),
            ("as a number", asks("limits", tree!({"cpu": 1})), asks("limits", tree!({"cpu": "1"})), true),
            ("more", asks("limits", tree!({"cpu": "1"})), asks("limits", tree!({"cpu": "2"})), false),
            (
                "of something else",
                asks("limits", tree!({"cpu": "1"})),
                asks("limits", tree!({"gpu": "1"})),
                false,
            ),
            ("none of it", asks("limits", tree!({"cpu": "0"})), asks("limits", none.clone()), false),
            ("nothing", asks("limits", none.clone()), plain.clone(), true),
            (
                "a size of a folder",
                volume(&tree!({"emptyDir": {"sizeLimit": "1024Mi"}})),
                volume(&tree!({"emptyDir": {"sizeLimit": "1Gi"}})),
                true,
            ),
            ("of a claim", ephemeral("1024Mi"), ephemeral("1Gi"), true),
            ("another", ephemeral("1024Mi"), ephemeral("2Gi"), false),
            (
                "what a runtime takes",
                pods(&tree!({"overhead": {"memory": "1024Ki"}})),
                pods(&tree!({"overhead": {"memory": "1Mi"}})),
                true,
            ),
            (
                "what only looks like one",
                container(&tree!({"image": "0.5"})),
                container(&tree!({"image": "500m"})),
                false,
            ),
            ("a key without a value", pods(&tree!({"nodeSelector": {"a": ""}})), plain.clone(), false),
            (
                "another of those",
                pods(&tree!({"nodeSelector": {"a": ""}})),
                pods(&tree!({"nodeSelector": {"b": ""}})),
                false,
            ),
            ("no key", pods(&tree!({"nodeSelector": {}})), plain.clone(), true),
        ] {
            check(says, job::POD_SPEC, &one, &other, alike);
        }
    }

    #[test]
    fn the_difference_is_named() {
        let job = |name: &str, part: &Tree| tree!({"name": name, "replicas": 1}).merge(part);
        let w = |part: Tree| Tree::list([job("v", &tree!({})), job("w", &part)]);
        let none = tree!({});
        let pod = |spec: Tree| w(tree!({"template": {"spec": {"template": (spec)}}}));
        let image = |image: &str| {
            pod(tree!({"spec": {"containers": [{"name": "a"}, {"name": "c", "image": image}]}}))
        };
        let label = |value: &str| pod(tree!({"metadata": {"labels": {"example.com/a": value}}}));
        for (old, new, words) in [
            (w(none.clone()), w(tree!({"replicas": 2})), "replicatedJob w: replicas"),
            (image("i"), image("j"), "replicatedJob w: template.spec.template.spec.containers[1].image"),
            (
                image("i"),
                pod(tree!({"spec": {"containers": [{"name": "a"}]}})),
                "replicatedJob w: template.spec.template.spec.containers",
            ),
            (
                label("b"),
                label("c"),
                "replicatedJob w: template.spec.template.metadata.labels[example.com/a]",
            ),
            (w(none.clone()), w(tree!({"dependsOn": [{"name": "v"}]})), "replicatedJob w: dependsOn"),
            (w(none.clone()), Tree::list([job("v", &none)]), "replicatedJob w is removed"),
            (Tree::list([job("v", &none)]), w(none.clone()), "replicatedJob w is added"),
            (
                w(none.clone()),
                Tree::list([job("w", &none), job("v", &none)]),
                "replicatedJobs are in another order",
            ),
        ] {
            assert_eq!(difference(&old, &new).as_deref(), Some(words));
        }
    }

    #[test]
    fn labels_count_as_they_stand() {
        for (says, one, other, alike) in [
            ("no labels", tree!({"labels": {}}), Tree::Null, true),
            ("what Go writes", tree!({"creationTimestamp": null}), Tree::Null, true),
            ("a label without a value", tree!({"labels": {"a": ""}}), tree!({"labels": {}}), false),
            ("another", tree!({"labels": {"a": ""}}), tree!({"labels": {"b": ""}}), false),
            ("a note", tree!({"annotations": {"a": ""}}), tree!({"annotations": {"a": "b"}}), false),
        ] {
            check(says, &["template", "metadata"], &one, &other, alike);
        }
        let affinity = |selector: Tree| {
            tree!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "k", "namespaceSelector": selector}]}})
        };
        for (says, one, other, alike) in [
            ("everything or nothing", tree!({}), Tree::Null, false),
            ("everything", tree!({"matchLabels": {}}), tree!({}), true),
            ("a value that is empty", tree!({"matchLabels": {"a": ""}}), tree!({}), false),
        ] {
            let path = [job::POD_SPEC, &["affinity"]].concat();
            check(says, &path, &affinity(one), &affinity(other), alike);
        }
    }

    #[test]
    fn counts_that_are_none_stay_so() {
        for field in
            ["parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds"]
        {
            check(field, &[job::JOB_SPEC, &[field]].concat(), &0.into(), &Tree::Null, false);
        }
        check("suspend", &[job::JOB_SPEC, &["suspend"]].concat(), &false.into(), &Tree::Null, false);
        check("none, where absent means one", job::REPLICAS, &0.into(), &Tree::Null, false);
        check("waiting for nobody", job::DEPENDS_ON, &tree!([]), &Tree::Null, true);
    }

    /// Shows: 762-34.
    #[test]
    fn devices_count_as_they_stand() {
        let asks = |devices: Tree| tree!([{"metadata": {"name": "t"}, "spec": {"devices": devices}}]);
        let request = |class: &str| tree!({"requests": [{"name": "r", "deviceClassName": class}]});
        for (says, one, other, alike) in [
            ("the same", request("a"), request("a"), true),
            ("another class", request("a"), request("b"), false),
            ("one less", request("a"), tree!({"requests": []}), false),
            (
                "a constraint on others",
                tree!({"constraints": [{"requests": ["a"]}]}),
                tree!({"constraints": [{"requests": ["b"]}]}),
                false,
            ),
            (
                "settings for others",
                tree!({"config": [{"requests": ["a"]}]}),
                tree!({"config": [{"requests": ["a", "b"]}]}),
                false,
            ),
        ] {
            check(says, job::CLAIMS, &asks(one), &asks(other), alike);
        }
    }

    #[test]
    fn more_covers_less() {
        let text = |it: &str| Tree::from(it);
        for (wanted, given, covered) in [
            (text("1Gi"), text("1024Mi"), true),
            (text("1Gi"), text("2Gi"), true),
            (text("2Gi"), text("1Gi"), false),
            (text("1500m"), text("2"), true),
            (text("20Pi"), text("10Pi"), false),
            (text("10Pi"), text("20Pi"), true),
            (text("1Gi"), Tree::Null, false),
            (Tree::Null, text("1Gi"), false),
            (text("much"), text("more"), false),
        ] {
            assert_eq!(is_covered_by(&wanted, &given), covered, "{wanted} {given}");
        }
        assert!(is_same_quantity(&1.into(), &text("1")) && !is_same_quantity(&1.into(), &text("2")));
    }
}
