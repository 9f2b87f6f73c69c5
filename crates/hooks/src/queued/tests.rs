//! What is taken in and refused, and that nothing is guessed.

use muster_api::queue::words::managers::RUNTIME_PATCH;
use muster_tree::tree;

use super::*;

/// A cluster of which nothing can be seen.
struct Dark;

fn dark<T>() -> Result<T, String> {
    Err("dark".to_owned())
}

impl Around for Dark {
    fn namespace(&self) -> Result<Tree, String> {
        dark()
    }

    fn owner(&self, _: &Owner) -> Result<Option<Tree>, String> {
        dark()
    }

    fn has_default_queue(&self) -> Result<bool, String> {
        dark()
    }

    fn has_default_class(&self) -> Result<bool, String> {
        dark()
    }

    fn may_release(&self) -> Result<bool, String> {
        dark()
    }

    fn acts_for(&self, _: &Owner) -> Result<bool, String> {
        dark()
    }

    fn gangs(&self) -> Result<Option<Gangs>, String> {
        dark()
    }
}

fn ask(decide: fn(&Asked<'_>) -> Answer, queued: Queued, object: &Tree, old: Option<&Tree>) -> Answer {
    let enabled = ["pod", "batch/job"].map(Into::into).into();
    let managed = Managed { enabled, ..Managed::default() };
    let namespaces = Selector::of(Some(&tree!({})));
    let settings = Settings { managed, namespaces, pods: taking::Settings::default() };
    decide(&Asked { queued, object, old, around: &Dark, settings: &settings })
}

#[test]
fn what_cannot_be_seen_is_never_guessed() {
    let bare = tree!({"metadata": {"name": "p"}, "spec": {}});
    let keyed = bare.with(&["metadata", "labels", labels::QUEUE], "q");
    for (says, queued, object) in [
        ("a pod that names no queue", Queued::Pod, &bare),
        ("a pod that names one", Queued::Pod, &keyed),
        ("a job that names none", Queued::Job, &bare),
        ("a job that names one", Queued::Job, &keyed),
    ] {
        let why = ask(take_in, queued, object, None).refused.expect(says);
        assert!(why.contains("dark"), "{says}: {why}");
    }
    assert_eq!(ask(judge, Queued::Pod, &bare, None), Answer::default(), "nobody's business");
    assert_eq!(ask(judge, Queued::Pod, &keyed, None), Answer::default(), "nothing has to be seen");
    let gated = keyed.with(&["spec", "schedulingGates"], tree!([{"name": "kueue.x-k8s.io/admission"}]));
    assert_eq!(ask(judge, Queued::Pod, &gated, Some(&gated)), Answer::default(), "nor who writes");
    let why = ask(judge, Queued::Pod, &keyed, Some(&gated)).refused;
    assert_eq!(why.as_deref(), Some("dark"), "who opens a gate has to be known");
}

/// A cluster with one namespace and nothing else, and whether the queue itself writes.
struct Lit {
    is_queue: bool,
}

impl Around for Lit {
    fn namespace(&self) -> Result<Tree, String> {
        Ok(tree!({"metadata": {"name": "n"}}))
    }

    fn owner(&self, _: &Owner) -> Result<Option<Tree>, String> {
        Ok(None)
    }

    fn has_default_queue(&self) -> Result<bool, String> {
        Ok(false)
    }

    fn has_default_class(&self) -> Result<bool, String> {
        Ok(false)
    }

    fn may_release(&self) -> Result<bool, String> {
        Ok(self.is_queue)
    }

    fn acts_for(&self, _: &Owner) -> Result<bool, String> {
        Ok(false)
    }

    fn gangs(&self) -> Result<Option<Gangs>, String> {
        Ok(None)
    }
}

/// What is answered about a TrainJob.
fn trained(decide: fn(&Asked<'_>) -> Answer, object: &Tree, old: Option<&Tree>, is_queue: bool) -> Answer {
    let enabled = ["trainer.kubeflow.org/trainjob"].map(Into::into).into();
    let managed = Managed { enabled, ..Managed::default() };
    let namespaces = Selector::of(Some(&tree!({})));
    let settings = Settings { managed, namespaces, pods: taking::Settings::default() };
    assert!(Queued::TrainJob.is_managed(&settings) && !Queued::JobSet.is_managed(&settings));
    decide(&Asked { queued: Queued::TrainJob, object, old, around: &Lit { is_queue }, settings: &settings })
}

fn train_job(queue: Option<&str>, spec: &Tree) -> Tree {
    tree!({"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "r"}, "suspend": false}})
        .with_option(&["metadata", "labels", labels::QUEUE], queue.map(Tree::from))
        .merge(&tree!({"spec": spec}))
}

#[test]
fn a_new_train_job_stands_still_and_has_an_entry_of_its_queue() {
    assert_eq!(Queued::of("trainer.kubeflow.org", "trainjobs"), Some(Queued::TrainJob));
    let other = tree!({"manager": "acme.io/x"});
    let forged = tree!({"manager": RUNTIME_PATCH, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [
        {"name": "node"}]}}}});
    let entry = tree!({"manager": RUNTIME_PATCH, "trainingRuntimeSpec": {"template": {"spec": {}}}});
    for (says, spec, patches) in [
        ("one that would run", tree!({}), vec![entry.clone()]),
        ("one that stands still by itself", tree!({"suspend": true}), vec![entry.clone()]),
        (
            "one with patches, among them one in our name",
            tree!({"runtimePatches": [(forged), (other.clone())]}),
            vec![other, entry],
        ),
    ] {
        let made = trained(take_in, &train_job(Some("q"), &spec), None, false).changed.expect(says);
        assert_eq!(made.bool_at(&["spec", "suspend"]), Some(true), "{says}");
        assert_eq!(made.items_at(&["spec", "runtimePatches"]), patches, "{says}");
        assert_eq!(trained(take_in, &made, None, false), Answer::default(), "{says}: twice is once");
        assert_eq!(trained(judge, &made, None, false), Answer::default(), "{says}: and it may be kept");
    }
    let free = train_job(None, &tree!({}));
    assert_eq!(trained(take_in, &free, None, false), Answer::default(), "one without a queue");
    let elsewhere = train_job(Some("q"), &tree!({"managedBy": "kueue.x-k8s.io/multikueue"}));
    assert_eq!(trained(take_in, &elsewhere, None, false), Answer::default(), "one that others run");
}

#[test]
fn a_train_job_that_is_queued_changes_as_its_queue_allows() {
    let entry = |jobs: &Tree| {
        tree!({"manager": RUNTIME_PATCH,
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": (jobs.clone())}}}})
    };
    let filled = tree!({"runtimePatches": [(entry(&tree!([{"name": "node"}])))]});
    let empty = tree!({"runtimePatches": [(entry(&tree!([])))]});
    let other = tree!({"runtimePatches": [{"manager": "acme.io/x"}, (entry(&tree!([{"name": "node"}])))]});
    let job = |queue: &str, suspend: bool, spec: &Tree| {
        train_job(Some(queue), &spec.merge(&tree!({"suspend": suspend})))
    };
    let words = |old: &Tree, new: &Tree, is_queue: bool| {
        let answer = trained(judge, new, Some(old), is_queue);
        assert_eq!(answer.refused, None);
        answer.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let [runs, waits] = [job("q", false, &filled), job("q", true, &empty)];
    for (says, old, new, want, of_queue) in [
        (
            "another queue while it runs",
            &runs,
            job("r", false, &filled),
            "field is immutable",
            "field is immutable",
        ),
        ("another queue while it waits", &waits, job("r", true, &empty), "", ""),
        ("its share forged", &waits, job("q", true, &filled), "only the queue writes the entry", ""),
        ("its share taken off", &runs, job("q", false, &empty), "only the queue writes the entry", ""),
        (
            "other patches while it runs",
            &runs,
            job("q", false, &other),
            "change while it is suspended",
            "change while it is suspended",
        ),
        ("a pause", &runs, job("q", true, &filled), "", ""),
    ] {
        for (is_queue, want) in [(false, want), (true, of_queue)] {
            let got = words(old, &new, is_queue);
            assert!(got.contains(want) && want.is_empty() == got.is_empty(), "{says}: {got:?}");
        }
    }
    let elsewhere =
        |spec: &Tree| job("q", false, spec).with(&["spec", "managedBy"], "kueue.x-k8s.io/multikueue");
    assert_eq!(words(&elsewhere(&filled), &elsewhere(&empty), false), "", "what others run is theirs");
}

/// A cluster with a JobSet that is queued; whoever writes may be its controller.
struct OfSet {
    is_controller: bool,
}

impl Around for OfSet {
    fn namespace(&self) -> Result<Tree, String> {
        Ok(tree!({}))
    }

    fn owner(&self, owner: &Owner) -> Result<Option<Tree>, String> {
        let set = tree!({"metadata": {"name": &owner.name, "uid": "s-uid", "labels": {"kueue.x-k8s.io/queue-name": "q"}}});
        Ok((owner.kind == "JobSet").then_some(set))
    }

    fn has_default_queue(&self) -> Result<bool, String> {
        Ok(false)
    }

    fn has_default_class(&self) -> Result<bool, String> {
        Ok(false)
    }

    fn may_release(&self) -> Result<bool, String> {
        Ok(false)
    }

    fn acts_for(&self, _: &Owner) -> Result<bool, String> {
        Ok(self.is_controller)
    }

    fn gangs(&self) -> Result<Option<Gangs>, String> {
        Ok(None)
    }
}

#[test]
fn a_job_of_a_queued_jobset_does_not_grow_by_itself() {
    let enabled = ["batch/job", "jobset.x-k8s.io/jobset"].map(Into::into).into();
    let managed = Managed { enabled, ..Managed::default() };
    let settings = Settings { managed, ..Settings::default() };
    let owner = tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "s-uid", "controller": true});
    let job = tree!({"metadata": {"name": "j", "uid": "j-uid", "ownerReferences": [owner]},
        "spec": {"parallelism": 2, "template": {"spec": {"containers": [{"name": "c"}]}}}});
    let pods = |count: i64| job.with(&["spec", "parallelism"], count);
    let free = pods(9).without(&["metadata", "ownerReferences"]);
    for (says, object, is_controller, want) in [
        ("it grows", pods(9), false, true),
        ("its controller lets it grow", pods(9), true, false),
        ("it shrinks", pods(1), false, false),
        ("nobody is queued in its stead", free, false, false),
    ] {
        let around = OfSet { is_controller };
        let asked = Asked {
            queued: Queued::Job,
            object: &object,
            old: Some(&job),
            around: &around,
            settings: &settings,
        };
        let refused = judge(&asked).refused;
        assert_eq!(refused.is_some(), want, "{says}: {refused:?}");
    }
}
