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
use muster_api::queue::kinds as queues;
use muster_api::queue::words::{DEFAULT, GROUP};
use muster_hooks::QueueSettings;
use muster_hooks::queued::{self, Around, Queued, judge, take_in};
use muster_install::hooks::{Hook, Say, Step};
use muster_jobset::admission::{
    Answer, Asked, Settings as JobSetSettings, default_jobset, mutate_pod, validate_jobset, validate_pod,
};
use muster_queue::kinds::admission as kueue;
use muster_tree::{Text, Tree};

use super::live::Look;
use super::review::Question;

/// Those who decide; absent are those who are switched off.
#[derive(Debug, Clone, Default)]
pub struct Deciders {
    /// About JobSets.
    pub jobsets: Option<JobSetSettings>,
    /// About queues.
    pub queues: Option<Arc<QueueSettings>>,
}

impl Deciders {
    /// Whether this step decides.
    pub fn has(&self, step: Step) -> bool {
        match step {
            Step::JobSets => self.jobsets.is_some(),
            Step::Queues => self.queues.is_some(),
        }
    }

    /// Those that decide.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        [Step::JobSets, Step::Queues].into_iter().filter(|it| self.has(*it))
    }

    /// Whether nobody does.
    pub fn is_empty(&self) -> bool {
        self.jobsets.is_none() && self.queues.is_none()
    }

    /// What all of them answer.
    pub fn decide(&self, hook: &Hook, question: &Question, look: &dyn Look) -> Answer {
        let sets = self.jobsets.as_ref().map(|settings| of_jobsets(hook, question, look, settings));
        let sets = sets.unwrap_or_default();
        let (Some(settings), None, true) = (&self.queues, &sets.refused, sets.problems.is_empty()) else {
            return sets;
        };
        let object = sets.changed.as_ref().unwrap_or(&question.object);
        let queues = of_queues(hook, question, object, look, settings);
        Answer {
            changed: queues.changed.or(sets.changed),
            warnings: [sets.warnings, queues.warnings].concat(),
            ..queues
        }
    }
}

fn of_jobsets(hook: &Hook, question: &Question, look: &dyn Look, settings: &JobSetSettings) -> Answer {
    let decide = match (hook.word, hook.say, &question.old) {
        ("JobSet", Say::Change, _) => default_jobset,
        ("JobSet", Say::Refuse, _) => validate_jobset,
        ("Pod", Say::Change, None) => mutate_pod,
        ("Pod", Say::Refuse, None) => validate_pod,
        _ => return Answer::default(),
    };
    decide(&Asked {
        namespace: &question.namespace,
        object: &question.object,
        old: question.old.as_ref(),
        live: look.for_jobsets(),
        settings,
    })
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
        return match hook.say {
            Say::Change => kueue::mutate(hook.word, &asked),
            Say::Refuse => kueue::validate(hook.word, &asked),
        };
    }
    let queued = Queued::of(&hook.kind.group, &hook.kind.plural).filter(|it| it.is_managed(settings));
    let decide = match (hook.say, old) {
        (Say::Change, None) => take_in,
        (Say::Refuse, _) => judge,
        (Say::Change, Some(_)) => return Answer::default(),
    };
    let around = Surroundings { question, look };
    queued
        .map(|queued| decide(&queued::Asked { queued, object, old, around: &around, settings }))
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
    use muster_install::hooks::HOOKS;
    use muster_jobset::admission::Live;
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
    }

    impl Live for Plain {
        fn volume_claim(&self, _: &str, _: &str) -> Result<Option<Tree>, String> {
            Ok(None)
        }

        fn node(&self, _: &str) -> Result<Option<Tree>, String> {
            Ok(None)
        }

        fn first_pods(&self, _: &str, _: &str, _: &str) -> Result<Vec<Tree>, String> {
            Ok(Vec::new())
        }
    }

    fn deciders() -> Deciders {
        let all = muster_queue::kinds::config::Settings::standard("own");
        let settings = crate::queues::admission(&all);
        assert_ne!(settings.managed, Managed::default(), "something is managed");
        Deciders { jobsets: Some(JobSetSettings::default()), queues: Some(Arc::new(settings)) }
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
            deciders().decide(hook("/validate--v1-pod"), &question, &Plain).problems
        };
        assert!(ask("us").is_empty());
        let problems = ask("tenant");
        assert!(problems[0].to_string().contains("only the queue may release this pod"), "{problems:?}");
    }
}
