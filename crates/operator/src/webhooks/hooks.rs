//! Who decides when a hook is asked; which hooks there are is what is installed.
//!
//! # Invariants
//!
//! - Whichever hook of a path is asked, all who have a say about that kind decide, one after the other. Each changes
//!   nothing when asked again about what it made.
//! - Whoever is switched off has nothing to say: what is installed may ask about it nevertheless.

use std::sync::Arc;

use muster_api::gang::Gangs;
use muster_api::kinds;
use muster_api::meta::Owner;
use muster_api::port::Kind;
use muster_api::ports::Clock;
use muster_api::queue::kinds as queues;
use muster_api::queue::words::{DEFAULT, GROUP};
use muster_api::train::words::GROUP as TRAINING;
use muster_hooks::QueueSettings;
use muster_hooks::queued::{self, Around, Queued, judge, take_in};
use muster_install::hooks::{Hook, Say, Step};
use muster_jobset::admission::{
    Answer, Asked, Settings as JobSetSettings, default_jobset, mutate_pod, validate_jobset, validate_pod,
};
use muster_queue::kinds::admission as kueue;
use muster_trainer::kinds::admission as trainer;
use muster_tree::{Text, Tree};

use super::live::Look;
use super::review::Question;
use crate::ports::SystemClock;

/// Those who decide; absent are those who are switched off.
#[derive(Debug, Clone, Default)]
pub struct Deciders {
    /// About JobSets.
    pub jobsets: Option<JobSetSettings>,
    /// About queues.
    pub queues: Option<Arc<QueueSettings>>,
    /// About TrainJobs and runtimes.
    pub training: bool,
}

impl Deciders {
    /// Whether this step decides.
    pub fn has(&self, step: Step) -> bool {
        match step {
            Step::JobSets => self.jobsets.is_some(),
            Step::Queues => self.queues.is_some(),
            Step::Training => self.training,
        }
    }

    /// Those that decide.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        [Step::JobSets, Step::Training, Step::Queues].into_iter().filter(|it| self.has(*it))
    }

    /// Whether nobody does.
    pub fn is_empty(&self) -> bool {
        self.steps().next().is_none()
    }

    /// What all of them answer, one after the other, until one refuses.
    pub fn decide(&self, hook: &Hook, question: &Question, look: &dyn Look) -> Answer {
        let mut all = Answer::default();
        for step in self.steps() {
            let object = all.changed.clone().unwrap_or_else(|| question.object.clone());
            let next = self.one(step, hook, question, &object, look);
            all = Answer {
                changed: next.changed.or(all.changed),
                warnings: [all.warnings, next.warnings].concat(),
                ..next
            };
            if all.refused.is_some() || !all.problems.is_empty() {
                break;
            }
        }
        all
    }

    /// What one of them answers about what the others made of the object.
    fn one(&self, step: Step, hook: &Hook, question: &Question, object: &Tree, look: &dyn Look) -> Answer {
        match (step, &self.jobsets, &self.queues) {
            (Step::JobSets, Some(settings), _) => of_jobsets(hook, question, object, look, settings),
            (Step::Queues, _, Some(settings)) => of_queues(hook, question, object, look, settings),
            (Step::Training, ..) => of_training(hook, question, object, look),
            _ => Answer::default(),
        }
    }
}

fn of_jobsets(
    hook: &Hook,
    question: &Question,
    object: &Tree,
    look: &dyn Look,
    settings: &JobSetSettings,
) -> Answer {
    let decide = match (hook.word, hook.say, &question.old) {
        ("JobSet", Say::Change, _) => default_jobset,
        ("JobSet", Say::Refuse, _) => validate_jobset,
        ("Pod", Say::Change, None) => mutate_pod,
        ("Pod", Say::Refuse, None) => validate_pod,
        _ => return Answer::default(),
    };
    decide(&Asked {
        namespace: &question.namespace,
        object,
        old: question.old.as_ref(),
        live: look.for_jobsets(),
        settings,
    })
}

fn of_training(hook: &Hook, question: &Question, object: &Tree, look: &dyn Look) -> Answer {
    if hook.kind.group != TRAINING {
        return Answer::default();
    }
    let decide = match hook.say {
        Say::Change => trainer::mutate,
        Say::Refuse => trainer::validate,
    };
    let asked = trainer::Asked {
        namespace: &question.namespace,
        object,
        old: question.old.as_ref(),
        live: look.for_training(),
        now: SystemClock.now(),
    };
    decide(hook.word, &asked)
}

fn of_queues(
    hook: &Hook,
    question: &Question,
    object: &Tree,
    look: &dyn Look,
    settings: &QueueSettings,
) -> Answer {
    let old = question.old.as_ref();
    if hook.kind.group == GROUP {
        let asked = kueue::Asked { object, old };
        let answer = match hook.say {
            Say::Change => kueue::mutate(hook.word, &asked),
            Say::Refuse => kueue::validate(hook.word, &asked),
        };
        return answer.denied();
    }
    let queued = Queued::of(&hook.kind.group, &hook.kind.plural).filter(|it| it.is_managed(settings));
    let decide = match (hook.say, old) {
        (Say::Change, None) => take_in,
        (Say::Refuse, _) => judge,
        (Say::Change, Some(_)) => return Answer::default(),
    };
    let around = Surroundings { question, look };
    queued
        .map(|queued| decide(&queued::Asked { queued, object, old, around: &around, settings }).denied())
        .unwrap_or_default()
}

/// What surrounds what somebody writes.
struct Surroundings<'a> {
    question: &'a Question,
    look: &'a dyn Look,
}

impl Surroundings<'_> {
    fn is_there(&self, kind: &Kind, namespace: &str) -> Result<bool, String> {
        Ok(self.look.one(kind, namespace, DEFAULT)?.is_some())
    }

    fn decides_about(&self, group: &str, plural: &str) -> Result<bool, String> {
        let Question { user, namespace, .. } = self.question;
        self.look.decides_about(user, namespace, (group, plural))
    }
}

impl Around for Surroundings<'_> {
    fn namespace(&self) -> Result<Tree, String> {
        let name = self.question.namespace.as_str();
        let found = self.look.one(&kinds::NAMESPACES, "", name)?;
        found.ok_or_else(|| format!("namespaces {name:?} not found"))
    }

    fn owner(&self, owner: &Owner) -> Result<Option<Tree>, String> {
        let version = owner.api_version.rsplit('/').next().unwrap_or_default();
        let kind = Kind { group: owner.group().into(), version: version.into(), plural: plural(owner) };
        self.look.one(&kind, &self.question.namespace, &owner.name)
    }

    fn has_default_queue(&self) -> Result<bool, String> {
        self.is_there(&queues::LOCAL_QUEUES, &self.question.namespace)
    }

    fn has_default_class(&self) -> Result<bool, String> {
        self.is_there(&queues::PRIORITY_CLASSES, "")
    }

    fn may_release(&self) -> Result<bool, String> {
        self.decides_about(GROUP, &queues::WORKLOADS.plural)
    }

    fn acts_for(&self, owner: &Owner) -> Result<bool, String> {
        self.decides_about(owner.group(), &plural(owner))
    }

    fn gangs(&self) -> Result<Option<Gangs>, String> {
        self.look.gangs()
    }
}

/// What an owner's kind is called in paths.
fn plural(owner: &Owner) -> Text {
    Text::from(format!("{}s", owner.kind.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use muster_api::gang::{Form, Mark};
    use muster_api::train::RuntimeKind;
    use muster_install::hooks::HOOKS;
    use muster_jobset::admission::{DryRun, Live};
    use muster_queue::jobs::ancestors::Managed;
    use muster_tree::tree;

    use super::*;

    /// A cluster with one namespace, which has a queue for whoever names none and every Job that one can think of.
    struct Plain;

    impl Look for Plain {
        fn one(&self, kind: &Kind, _: &str, name: &str) -> Result<Option<Tree>, String> {
            let queue = tree!({"kueue.x-k8s.io/queue-name": "default"});
            let there = [&kinds::NAMESPACES, &queues::LOCAL_QUEUES, &kinds::JOBS].contains(&kind);
            Ok(there.then(|| tree!({"metadata": {"name": name, "uid": name, "labels": queue}})))
        }

        fn decides_about(&self, user: &Tree, _: &str, (_, plural): (&str, &str)) -> Result<bool, String> {
            let name = user.str_at(&["username"]);
            Ok(name == "us" || (name == "job-controller" && plural == "jobs"))
        }

        fn gangs(&self) -> Result<Option<Gangs>, String> {
            Ok(Some(Gangs { form: Form::Released, mark: Mark::Field }))
        }

        fn for_jobsets(&self) -> &dyn Live {
            self
        }

        fn for_training(&self) -> &dyn trainer::Live {
            self
        }
    }

    impl trainer::Live for Plain {
        fn runtime(&self, kind: RuntimeKind, _: &str, name: &str) -> Result<Option<Tree>, String> {
            let job = tree!({"name": "node", "replicas": 1});
            let spec = tree!({"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [job]}}});
            let there = kind == RuntimeKind::Cluster && name == "plain";
            Ok(there.then(|| tree!({"metadata": {"name": name}, "spec": spec})))
        }

        fn config_map(&self, _: &str, _: &str) -> Result<Option<Tree>, String> {
            Ok(None)
        }

        fn jobset(&self, _: &str, _: &str) -> Result<Option<Tree>, String> {
            Ok(None)
        }

        fn has_priority_class(&self, _: &str) -> Result<bool, String> {
            Ok(false)
        }
    }

    impl Live for Plain {
        fn volume_claim(&self, _: &str, _: &str) -> Result<Option<Tree>, String> {
            Ok(None)
        }

        fn device_claims(&self, _: &str, _: &str) -> Result<Vec<Tree>, String> {
            Ok(Vec::new())
        }

        fn node(&self, _: &str) -> Result<Option<Tree>, String> {
            Ok(None)
        }

        fn first_pods(&self, _: &str, _: &str, _: &str) -> Result<Vec<Tree>, String> {
            Ok(Vec::new())
        }

        fn dry_run(&self, _: &Kind, _: &Tree) -> DryRun {
            DryRun::Valid
        }
    }

    fn deciders() -> Deciders {
        let all = muster_queue::kinds::config::Settings::standard("own");
        let settings = crate::queues::admission(&all);
        assert_ne!(settings.managed, Managed::default(), "something is managed");
        Deciders {
            jobsets: Some(JobSetSettings::default()),
            queues: Some(Arc::new(settings)),
            training: true,
        }
    }

    fn hook(path: &str) -> &'static Hook {
        HOOKS.iter().find(|hook| hook.path == path).expect("there is such a path")
    }

    fn question(object: &Tree) -> Question {
        Question { namespace: "n".into(), object: object.clone(), ..Question::default() }
    }

    #[test]
    fn a_jobset_is_filled_in_and_put_into_its_queue_at_once() {
        let set =
            tree!({"metadata": {"name": "s"}, "spec": {"replicatedJobs": [{"name": "w", "template": {}}]}});
        let change = hook("/mutate-jobset-x-k8s-io-v1alpha2-jobset");
        let made = deciders().decide(change, &question(&set), &Plain).changed.unwrap();
        assert_eq!(made.str_at(&["metadata", "labels", "kueue.x-k8s.io/queue-name"]), "default");
        assert_eq!(made.bool_at(&["spec", "suspend"]), Some(true));
        assert_eq!(made.str_at(&["spec", "successPolicy", "operator"]), "All", "and filled in");
        let again = deciders().decide(change, &question(&made), &Plain).changed;
        assert!(again.is_none_or(|again| again == made), "asked twice, made once");
        let alone = Deciders { queues: None, ..deciders() };
        let made = alone.decide(change, &question(&set), &Plain).changed.unwrap();
        assert_eq!(made.at(&["metadata", "labels"]), None, "nobody decides about queues");
        assert_eq!(Deciders::default().decide(change, &question(&set), &Plain), Answer::default());
    }

    #[test]
    fn a_trainjob_is_told_when_it_was_patched_and_held_against_its_runtime() {
        let job = tree!({"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "plain"},
            "runtimePatches": [{"manager": "a.io/b"}], "ttlSecondsAfterFinished": 5}});
        let change = hook("/mutate-trainer-kubeflow-org-v1alpha1-trainjob");
        let judge = hook("/validate-trainer-kubeflow-org-v1alpha1-trainjob");
        let made = deciders().decide(change, &question(&job), &Plain).changed.unwrap();
        let time = made.items_at(&["spec", "runtimePatches"])[0].str_at(&["time"]).to_owned();
        assert!(time.ends_with('Z'), "{time}");
        let said = deciders().decide(judge, &question(&made), &Plain);
        assert_eq!((said.refused, said.warnings.len()), (None, 1), "it goes soon, which is told");
        let lost = job.with(&["spec", "runtimeRef", "name"], "absent");
        let why = deciders().decide(judge, &question(&lost), &Plain).refused.unwrap();
        assert!(why.contains("must be created before the TrainJob is created"), "{why}");
        let off = Deciders { training: false, ..deciders() };
        assert_eq!(off.decide(judge, &question(&lost), &Plain), Answer::default(), "nobody decides");
    }

    #[test]
    fn a_train_job_is_put_into_its_queue_and_only_the_queue_writes_its_entry() {
        let job = tree!({"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "plain"}}});
        let change = hook("/mutate-trainer-kubeflow-org-v1alpha1-trainjob");
        let made = deciders().decide(change, &question(&job), &Plain).changed.unwrap();
        assert_eq!(made.bool_at(&["spec", "suspend"]), Some(true));
        let entry = &made.items_at(&["spec", "runtimePatches"])[0];
        assert_eq!(entry.str_at(&["manager"]), "kueue.x-k8s.io/manager");
        let jobs = tree!({"template": {"spec": {"replicatedJobs": [{"name": "node"}]}}});
        let forged =
            made.with(&["spec", "runtimePatches"], tree!([(entry.with(&["trainingRuntimeSpec"], jobs))]));
        let ask = |user: &str| {
            let user = tree!({"username": user});
            let question = Question { old: Some(made.clone()), user, ..question(&forged) };
            let judge = hook("/validate-trainer-kubeflow-org-v1alpha1-trainjob");
            deciders().decide(judge, &question, &Plain).refused
        };
        assert_eq!(ask("us"), None);
        let why = ask("tenant").unwrap();
        assert!(why.contains("only the queue writes the entry"), "{why}");
    }

    #[test]
    fn a_pod_of_a_queued_job_is_made_by_who_makes_such() {
        let owner =
            tree!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": true});
        let pod = tree!({"metadata": {"name": "p", "ownerReferences": [(owner.clone())]}, "spec": {}});
        let ask = |user: &str, pod: &Tree| {
            let question = Question { user: tree!({"username": user}), ..question(pod) };
            deciders().decide(hook("/mutate--v1-pod"), &question, &Plain)
        };
        assert_eq!(ask("job-controller", &pod), Answer::default(), "it waited with its Job");
        let why = ask("tenant", &pod).refused.unwrap();
        assert!(why.contains("only its controller makes something for it"), "{why}");
        let namesake = pod.with(&["metadata", "ownerReferences"], tree!([(owner.with(&["uid"], "k"))]));
        let taken = ask("tenant", &namesake).changed.unwrap();
        assert_eq!(taken.str_at(&["metadata", "labels", "kueue.x-k8s.io/queue-name"]), "default");
    }

    #[test]
    fn pods_that_ask_for_it_name_their_gang_as_the_server_spells_it() {
        let labels = tree!({"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/pod-group-name": "g"});
        let pod = tree!({"metadata": {"name": "p", "labels": labels}, "spec": {}});
        let ask =
            |pod: &Tree| deciders().decide(hook("/mutate--v1-pod"), &question(pod), &Plain).changed.unwrap();
        assert_eq!(ask(&pod).at(&["spec", "schedulingGroup"]), None, "nobody asked");
        let asks = pod.with(&["metadata", "annotations", "scheduling.muster.dev/gang"], "true");
        assert_eq!(ask(&asks).str_at(&["spec", "schedulingGroup", "podGroupName"]), "g");
    }

    #[test]
    fn who_may_open_a_gate_is_asked_for_by_name() {
        let open =
            tree!({"metadata": {"name": "p", "labels": {"kueue.x-k8s.io/queue-name": "q"}}, "spec": {}});
        let gated = open.with(&["spec", "schedulingGates"], tree!([{"name": "kueue.x-k8s.io/admission"}]));
        let ask = |user: &str| {
            let user = tree!({"username": user});
            let question = Question { old: Some(gated.clone()), user, ..question(&open) };
            deciders().decide(hook("/validate--v1-pod"), &question, &Plain).refused
        };
        assert_eq!(ask("us"), None);
        let why = ask("tenant").unwrap();
        assert!(why.contains("only the queue may release this pod"), "{why}");
    }
}
