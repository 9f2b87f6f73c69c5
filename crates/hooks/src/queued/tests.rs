//! What is taken in and refused, and that nothing is guessed.

use muster_api::queue::consts::managers::RUNTIME_PATCH;
use muster_tree::tree;

use super::*;

/// A cluster of which nothing can be seen.
struct UnavailableLister;

fn dark<T>() -> Result<T, String> {
    Err("dark".to_owned())
}

impl RelatedObjects for UnavailableLister {
    fn namespace(&self) -> Result<Tree, String> {
        dark()
    }

    fn owner(&self, _: &OwnerReference) -> Result<Option<Tree>, String> {
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

    fn acts_for(&self, _: &OwnerReference) -> Result<bool, String> {
        dark()
    }

    fn gangs(&self) -> Result<Option<GangSupport>, String> {
        dark()
    }
}

fn ask(
    decide: fn(&QueueReview<'_>) -> Answer,
    queued: QueueableKind,
    object: &Tree,
    old: Option<&Tree>,
) -> Answer {
    let enabled = ["pod", "batch/job"].map(Into::into).into();
    let managed = ManagedKinds { enabled, ..ManagedKinds::default() };
    let namespaces = LabelSelector::of(Some(&tree!({})));
    let settings = QueueWebhookConfig { managed, namespaces, pods: taking::PodWebhookSettings::default() };
    decide(&QueueReview { queued, object, old, around: &UnavailableLister, settings: &settings })
}

#[test]
fn what_cannot_be_seen_is_never_guessed() {
    let bare = tree!({"metadata": {"name": "p"}, "spec": {}});
    let keyed = bare.with(&["metadata", "labels", labels::QUEUE], "q");
    for (says, queued, object) in [
        ("a pod that names no queue", QueueableKind::Pod, &bare),
        ("a pod that names one", QueueableKind::Pod, &keyed),
        ("a job that names none", QueueableKind::Job, &bare),
        ("a job that names one", QueueableKind::Job, &keyed),
    ] {
        let why = ask(mutate_queued, queued, object, None).refused.expect(says);
        assert!(why.contains("dark"), "{says}: {why}");
    }
    assert_eq!(ask(validate_queued, QueueableKind::Pod, &bare, None), Answer::default(), "nobody's business");
    assert_eq!(
        ask(validate_queued, QueueableKind::Pod, &keyed, None),
        Answer::default(),
        "nothing has to be seen"
    );
    let gated = keyed.with(&["spec", "schedulingGates"], tree!([{"name": "kueue.x-k8s.io/admission"}]));
    assert_eq!(
        ask(validate_queued, QueueableKind::Pod, &gated, Some(&gated)),
        Answer::default(),
        "nor who writes"
    );
    let why = ask(validate_queued, QueueableKind::Pod, &keyed, Some(&gated)).refused;
    assert_eq!(why.as_deref(), Some("dark"), "who opens a gate has to be known");
}

/// A cluster with one namespace and nothing else, and whether the queue itself writes.
struct FixedLister {
    is_queue: bool,
}

impl RelatedObjects for FixedLister {
    fn namespace(&self) -> Result<Tree, String> {
        Ok(tree!({"metadata": {"name": "n"}}))
    }

    fn owner(&self, _: &OwnerReference) -> Result<Option<Tree>, String> {
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

    fn acts_for(&self, _: &OwnerReference) -> Result<bool, String> {
        Ok(false)
    }

    fn gangs(&self) -> Result<Option<GangSupport>, String> {
        Ok(None)
    }
}

/// What is answered about a TrainJob.
fn trained(
    decide: fn(&QueueReview<'_>) -> Answer,
    object: &Tree,
    old: Option<&Tree>,
    is_queue: bool,
) -> Answer {
    let enabled = ["trainer.kubeflow.org/trainjob"].map(Into::into).into();
    let managed = ManagedKinds { enabled, ..ManagedKinds::default() };
    let namespaces = LabelSelector::of(Some(&tree!({})));
    let settings = QueueWebhookConfig { managed, namespaces, pods: taking::PodWebhookSettings::default() };
    assert!(QueueableKind::TrainJob.is_managed(&settings) && !QueueableKind::JobSet.is_managed(&settings));
    decide(&QueueReview {
        queued: QueueableKind::TrainJob,
        object,
        old,
        around: &FixedLister { is_queue },
        settings: &settings,
    })
}

fn train_job(queue: Option<&str>, spec: &Tree) -> Tree {
    tree!({"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "r"}, "suspend": false}})
        .with_option(&["metadata", "labels", labels::QUEUE], queue.map(Tree::from))
        .merge(&tree!({"spec": spec}))
}

#[test]
fn a_new_train_job_stands_still_and_has_an_entry_of_its_queue() {
    assert_eq!(QueueableKind::of("trainer.kubeflow.org", "trainjobs"), Some(QueueableKind::TrainJob));
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
        let made = trained(mutate_queued, &train_job(Some("q"), &spec), None, false).changed.expect(says);
        assert_eq!(made.bool_at(&["spec", "suspend"]), Some(true), "{says}");
        assert_eq!(made.items_at(&["spec", "runtimePatches"]), patches, "{says}");
        assert_eq!(trained(mutate_queued, &made, None, false), Answer::default(), "{says}: twice is once");
        assert_eq!(
            trained(validate_queued, &made, None, false),
            Answer::default(),
            "{says}: and it may be kept"
        );
    }
    let free = train_job(None, &tree!({}));
    assert_eq!(trained(mutate_queued, &free, None, false), Answer::default(), "one without a queue");
    let elsewhere = train_job(Some("q"), &tree!({"managedBy": "kueue.x-k8s.io/multikueue"}));
    assert_eq!(trained(mutate_queued, &elsewhere, None, false), Answer::default(), "one that others run");
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
        let answer = trained(validate_queued, new, Some(old), is_queue);
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

/// A cluster with a queued JobSet; the user may act as its controller.
struct OwnedByJobSet {
    is_controller: bool,
}

impl RelatedObjects for OwnedByJobSet {
    fn namespace(&self) -> Result<Tree, String> {
        Ok(tree!({}))
    }

    fn owner(&self, owner: &OwnerReference) -> Result<Option<Tree>, String> {
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

    fn acts_for(&self, _: &OwnerReference) -> Result<bool, String> {
        Ok(self.is_controller)
    }

    fn gangs(&self) -> Result<Option<GangSupport>, String> {
        Ok(None)
    }
}

#[test]
fn a_job_of_a_queued_jobset_does_not_grow_by_itself() {
    let enabled = ["batch/job", "jobset.x-k8s.io/jobset"].map(Into::into).into();
    let managed = ManagedKinds { enabled, ..ManagedKinds::default() };
    let settings = QueueWebhookConfig { managed, ..QueueWebhookConfig::default() };
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
        let around = OwnedByJobSet { is_controller };
        let asked = QueueReview {
            queued: QueueableKind::Job,
            object: &object,
            old: Some(&job),
            around: &around,
            settings: &settings,
        };
        let refused = validate_queued(&asked).refused;
        assert_eq!(refused.is_some(), want, "{says}: {refused:?}");
    }
}
