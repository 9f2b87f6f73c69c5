//! How a server spells gangs: found out from what it serves, and from what it keeps of a pod.
//!
//! # Invariants
//!
//! - A version counts by the kinds it has: `scheduling.k8s.io/v1beta1` was there before it had any of these.
//! - Whether pods have a field for their group is seen by a rehearsal: a server may know the field and drop it, since
//!   kinds and fields have gates of their own. What is rehearsed is a Job that makes no pods, which whoever runs JobSets
//!   may make, and of which nothing is kept.
//! - Nothing is ever guessed from the version of the server.

use muster_api::gang::{Form, Gangs, Mark};
use muster_api::port::{Act, Call, Guard, Kind, Part, Refusal, Target};
use muster_api::{kinds, meta};
use muster_cluster::{KubeApi, Served};
use muster_tree::{Text, Tree, literal, tree};

/// The forms that a server may have, the best first. The proposal's is told from that of 1.35, which has the same
/// version, by its groups.
const FORMS: [Form; 5] = [Form::Proposal, Form::Released, Form::Earlier, Form::Legacy, Form::Own];
/// The name of what is rehearsed.
const REHEARSED: Text = literal!("muster-rehearsal");
/// Where a Job has the spec of its pods.
const POD: [&str; 3] = ["spec", "template", "spec"];

/// What became of the field when a pod with it was rehearsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    /// It stays.
    Kept,
    /// The server drops it, or does not know it.
    Dropped,
    /// The server does not say: it refused for another reason.
    Untold,
}

/// How gangs are spelled there; `None` where the server has no kinds for them. Rehearsed is in this namespace.
pub async fn look(api: &KubeApi, served: &[Served], namespace: &str) -> Option<Gangs> {
    let form = form(served)?;
    let Some(field) = field(form) else { return Some(settle(form, Field::Dropped)) };
    let call = rehearsal(namespace, field);
    Some(settle(form, read(&api.rehearse(&call).await.map(|it| it.tree), field)))
}

/// In words: the kinds, and how pods are marked.
pub(crate) fn words(gangs: Option<Gangs>) -> String {
    let Some(Gangs { form, mark }) = gangs else {
        return "this cluster has no kinds for gangs, neither its own nor ours: \
            `muster crds | kubectl apply --server-side -f -` brings ours"
            .to_owned();
    };
    let by = match (mark, field(form)) {
        (Mark::Field, Some(field)) => format!("the field `{field}`"),
        _ => "annotations".to_owned(),
    };
    format!("gangs are those of {}, and pods name theirs by {by}", meta::api_version(form.workloads()))
}

/// The best form of which all kinds are there.
fn form(served: &[Served]) -> Option<Form> {
    let has = |kind: &Kind| served.iter().any(|it| it.kind == *kind);
    let all = |form: &Form| has(form.workloads()) && form.groups().is_none_or(has);
    FORMS.into_iter().find(all)
}

/// The field by which pods name their group, where there is one.
fn field(form: Form) -> Option<&'static str> {
    match form {
        Form::Proposal | Form::Legacy => Some("workloadRef"),
        Form::Released | Form::Earlier => Some("schedulingGroup"),
        Form::Own => None,
    }
}

/// A server that has the kinds and does not say what it does with the field has the field, too: one gate is for both.
fn settle(form: Form, field: Field) -> Gangs {
    let mark = if field == Field::Dropped { Mark::Annotations } else { Mark::Field };
    Gangs { form, mark }
}

/// A Job that makes no pods, whose pods would be in a group.
fn rehearsal(namespace: &str, field: &str) -> Call {
    let group = match field {
        "schedulingGroup" => tree!({"podGroupName": "g"}),
        // Both readings of it are satisfied.
        _ => tree!({"name": "w", "podGroup": "g"}),
    };
    let pod = tree!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let job = tree!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"suspend": true}});
    let job = job.with(&POD, pod.with(&[field], group));
    let on = Target {
        kind: kinds::JOBS.clone(),
        namespace: Text::from(namespace),
        name: REHEARSED,
        part: Part::Main,
    };
    Call { by: literal!("muster"), on, guard: Guard::default(), act: Act::Create(job) }
}

fn read(answer: &Result<Tree, Refusal>, field: &str) -> Field {
    match answer {
        Ok(job) => {
            let kept = job.at(&[&POD[..], &[field]].concat()).is_some_and(|it| !it.is_empty());
            if kept { Field::Kept } else { Field::Dropped }
        }
        // Fields that nobody knows are refused when one asks for strictness.
        Err(Refusal::Invalid(words)) if words.contains("unknown field") => Field::Dropped,
        Err(_) => Field::Untold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(kinds: &[&str]) -> Vec<Served> {
        let one = |text: &&str| {
            let mut words = text.split('/').map(Text::from);
            let mut next = || words.next().unwrap();
            let kind = Kind { group: next(), version: next(), plural: next() };
            Served { kind, word: "X".into(), namespaced: true }
        };
        kinds.iter().map(one).collect()
    }

    /// Shows: 5832-62, 5832-63.
    #[test]
    fn the_form_is_known_by_its_kinds() {
        let own = ["scheduling.muster.dev/v1alpha1/workloads", "scheduling.muster.dev/v1alpha1/podgroups"];
        let native =
            |version: &str| ["workloads", "podgroups"].map(|it| format!("scheduling.k8s.io/{version}/{it}"));
        let (released, earlier, proposal) = (native("v1beta1"), native("v1alpha2"), native("v1alpha1"));
        let text = |it: &[String; 2]| it.clone().map(|it| -> &'static str { it.leak() });
        let (released, earlier, proposal) = (text(&released), text(&earlier), text(&proposal));
        for (says, kinds, want) in [
            ("nothing", vec![], None),
            ("a version of other kinds", vec!["scheduling.k8s.io/v1beta1/priorityclasses"], None),
            ("ours", own.to_vec(), Some(Form::Own)),
            ("half of ours", own[..1].to_vec(), None),
            ("1.37 before ours", [&own[..], &released].concat(), Some(Form::Released)),
            ("1.36", [&own[..], &earlier].concat(), Some(Form::Earlier)),
            ("1.35", [&own[..], &proposal[..1]].concat(), Some(Form::Legacy)),
            ("our server, which has both views", [&proposal[..], &released].concat(), Some(Form::Proposal)),
            ("the better of two", [&earlier[..], &released].concat(), Some(Form::Released)),
            ("half of one", [&own[..], &released[1..]].concat(), Some(Form::Own)),
        ] {
            assert_eq!(form(&served(&kinds)), want, "{says}");
        }
    }

    /// Shows: 5832-62.
    #[test]
    fn the_field_is_known_by_what_is_kept_of_it() {
        let job = |spec: Tree| Ok(Tree::empty_map().with(&POD, spec));
        let field = "schedulingGroup";
        let unknown = r#"strict decoding error: unknown field "spec.template.spec.schedulingGroup""#;
        for (says, answer, want) in [
            ("kept", job(tree!({"schedulingGroup": {"podGroupName": "g"}})), Field::Kept),
            ("dropped", job(tree!({"restartPolicy": "Never"})), Field::Dropped),
            ("unknown", Err(Refusal::Invalid(unknown.to_owned())), Field::Dropped),
            ("another fault", Err(Refusal::Invalid("no such image".to_owned())), Field::Untold),
            ("no right", Err(Refusal::Forbidden("no".to_owned())), Field::Untold),
            ("no namespace", Err(Refusal::NotFound("no".to_owned())), Field::Untold),
        ] {
            assert_eq!(read(&answer, field), want, "{says}");
        }
        assert_eq!(
            settle(Form::Released, Field::Dropped).mark,
            Mark::Annotations,
            "what is not kept is no mark"
        );
        assert_eq!(settle(Form::Released, Field::Untold).mark, Mark::Field);
    }

    #[test]
    fn what_was_found_is_told() {
        for (gangs, want) in [
            (
                Some(Gangs { form: Form::Released, mark: Mark::Field }),
                "gangs are those of scheduling.k8s.io/v1beta1, and pods name theirs by the field `schedulingGroup`",
            ),
            (
                Some(Gangs { form: Form::Own, mark: Mark::Annotations }),
                "gangs are those of scheduling.muster.dev/v1alpha1, and pods name theirs by annotations",
            ),
        ] {
            assert_eq!(words(gangs), want);
        }
        assert!(words(None).contains("muster crds"));
    }

    #[test]
    fn what_is_rehearsed_makes_no_pods_and_asks_for_the_field() {
        let Act::Create(job) = rehearsal("n", "schedulingGroup").act else { panic!("it is a create") };
        assert_eq!(job.bool_at(&["spec", "suspend"]), Some(true));
        assert_eq!(job.str_at(&["spec", "template", "spec", "schedulingGroup", "podGroupName"]), "g");
    }
}
