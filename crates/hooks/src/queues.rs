//! Queues, flavors and what waits in queues; jobs and pods that are put into one.

use std::sync::Arc;

use muster_api::kinds::{JOBS, JOBSETS};
use muster_api::meta::{self, Owner};
use muster_api::paths::{job as job_path, jobset as jobset_path};
use muster_api::queue::words::{DEFAULT, GROUP, annotations, finalizers, labels};
use muster_api::selector::Selector;
use muster_apiserver::admission::{AdmissionRequest, Hook, Operation, Verdict};
use muster_queue::jobs::admit::{self, Around, Changed};
use muster_queue::jobs::ancestors::{self, Above, Ancestor, Lost, Managed};
use muster_queue::jobs::plan::queue_of;
use muster_queue::kinds::admission::{Answer, Asked, mutate, validate};
use muster_queue::pods::admit::{self as taking, Ancestry, Live};
use muster_queue::pods::check::{self, Caller};
use muster_store::Key;
use muster_tree::{Text, Tree};

use super::verdict;

/// Those who may do everything.
const MASTERS: &str = "system:masters";

/// What is taken in.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Which kinds are managed.
    pub managed: Managed,
    /// The namespaces whose jobs and pods are managed.
    pub namespaces: Selector,
    /// Which pods, besides.
    pub pods: taking::Settings,
}

/// The step.
#[derive(Debug, Clone)]
pub struct Queues {
    settings: Arc<Settings>,
}

/// A question that can be asked.
type Question = fn(&str, &Asked<'_>) -> Answer;

/// What can be put into a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Queued {
    Job,
    JobSet,
    Pod,
}

impl Queued {
    fn of(request: &AdmissionRequest<'_>) -> Option<Queued> {
        if request.is("", "pods") {
            Some(Queued::Pod)
        } else if request.is(&JOBS.group, &JOBS.plural) {
            Some(Queued::Job)
        } else {
            request.is(&JOBSETS.group, &JOBSETS.plural).then_some(Queued::JobSet)
        }
    }

    fn suspend(self) -> &'static [&'static str] {
        if self == Queued::JobSet { jobset_path::SUSPEND } else { job_path::SUSPEND }
    }

    fn integration(self) -> &'static str {
        match self {
            Queued::Job => "batch/job",
            Queued::JobSet => "jobset.x-k8s.io/jobset",
            Queued::Pod => "pod",
        }
    }

    /// The words of webhooks that say so in a cluster.
    fn webhook(self) -> &'static str {
        match self {
            Queued::Job => "job.kb.io",
            Queued::JobSet => "jobset.kb.io",
            Queued::Pod => "pod.kb.io",
        }
    }
}

impl Queues {
    /// The name of the step.
    pub const NAME: &str = "queue";

    /// With these settings.
    #[must_use]
    pub fn new(settings: Settings) -> Queues {
        Queues { settings: Arc::new(settings) }
    }

    /// Something new that may be taken in.
    fn take_in(&self, request: &AdmissionRequest<'_>, queued: Queued, object: &Tree) -> Verdict {
        let around = Surroundings { request, object, settings: &self.settings };
        let waits = !queue_of(object).is_empty() || self.settings.managed.without_queue;
        let parented = meta::annotation(object, annotations::SUSPENDING_PARENT).is_some();
        // Whoever has no business with queues costs one look.
        if !waits && !parented && !around.has_default_queue() {
            return Verdict::allow();
        }
        if queued == Queued::Pod {
            return match taking::admit(object, &around, &self.settings.pods) {
                taking::Verdict::LeftAlone => Verdict::allow(),
                taking::Verdict::TakenIn(pod) => changed(pod, object),
                taking::Verdict::Refused(why) => {
                    verdict(Answer { refused: Some(why), ..Answer::default() }, request, object, "mpod.kb.io")
                }
            };
        }
        let ancestor = match around.ancestor() {
            Ok(ancestor) => ancestor,
            Err(why) => {
                let refused = Some(why.to_string());
                return verdict(Answer { refused, ..Answer::default() }, request, object, queued.webhook());
            }
        };
        let filled = admit::filled_in(
            object,
            queued.suspend(),
            Around {
                is_selected: around.namespace().is_ok_and(|it| self.settings.namespaces.selects(&it)),
                has_default_queue: around.has_default_queue(),
                has_default_class: around.has_default_priority(),
                without_queue: self.settings.managed.without_queue,
                has_managed_owner: ancestor.is_some(),
            },
        );
        changed(filled, object)
    }

    fn judge(&self, request: &AdmissionRequest<'_>, queued: Queued, object: &Tree) -> Verdict {
        let keyed = |it: &Tree| {
            [labels::QUEUE, labels::MANAGED, labels::POD_GROUP_NAME]
                .iter()
                .any(|key| meta::label(it, key).is_some())
                || [labels::POD_GROUP_NAME, annotations::SUSPENDING_PARENT]
                    .iter()
                    .any(|key| meta::annotation(it, key).is_some())
                || meta::has_finalizer(it, finalizers::POD)
        };
        if !keyed(object) && !request.old.is_some_and(keyed) {
            return Verdict::allow();
        }
        let around = Surroundings { request, object, settings: &self.settings };
        let default_queue = around.has_default_queue();
        let answer = if queued == Queued::Pod {
            let may = request.user.groups.iter().any(|group| group == MASTERS);
            let owner = meta::owners(object).find(|it| it.controller);
            let enabled = |it: Owner| self.settings.managed.is_enabled(it.group(), &it.kind);
            let answer = check::check(&check::Asked {
                pod: object,
                old: request.old,
                caller: if may { Caller::MayRelease } else { Caller::Other },
                owner_enabled: owner.is_some_and(enabled),
                default_queue,
            });
            Answer { problems: answer.problems, warnings: answer.warnings, ..Answer::default() }
        } else {
            let mut problems = admit::check_queue_words(object);
            if queued == Queued::Job {
                problems.extend(admit::check_job(object));
            }
            if let Some(old) = request.old {
                let is_suspended = object.bool_at(queued.suspend()) == Some(true);
                let changed = Changed { old, new: object, is_suspended, has_default_queue: default_queue };
                problems.extend(admit::check_queue_change(&changed));
                if queued == Queued::Job {
                    problems.extend(admit::check_job_change(old, object));
                }
            }
            Answer { problems, ..Answer::default() }
        };
        verdict(answer, request, object, queued.webhook())
    }

    fn manages(&self, queued: Queued) -> bool {
        self.settings.managed.enabled.contains(queued.integration())
    }
}

impl Hook for Queues {
    fn name(&self) -> &str {
        Queues::NAME
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> Verdict {
        let queued = Queued::of(request).filter(|it| self.manages(*it));
        match (request.operation, queued, request.object) {
            (Operation::Create, Some(queued), Some(object)) => self.take_in(request, queued, object),
            _ if request.subresource.is_empty() => ask(request, mutate, "m"),
            _ => Verdict::allow(),
        }
    }

    fn validate(&self, request: &AdmissionRequest<'_>) -> Verdict {
        let queued = Queued::of(request).filter(|it| self.manages(*it));
        match (request.operation, queued, request.object) {
            (Operation::Create | Operation::Update, Some(queued), Some(object)) => {
                self.judge(request, queued, object)
            }
            // What is written to a status is judged like the rest: shares stand there.
            _ => ask(request, validate, "v"),
        }
    }
}

fn changed(new: Tree, old: &Tree) -> Verdict {
    let changed = (new != *old).then_some(new);
    Verdict::Allow { changed, warnings: Vec::new() }
}

fn ask(request: &AdmissionRequest<'_>, question: Question, letter: &str) -> Verdict {
    let asks = matches!(request.operation, Operation::Create | Operation::Update);
    let (true, Some(object)) = (asks && request.resource.group == GROUP, request.object) else {
        return Verdict::allow();
    };
    let answer = question(&request.resource.kind, &Asked { object, old: request.old });
    let webhook = format!("{letter}{}.kb.io", request.resource.singular);
    verdict(answer, request, object, &webhook)
}

/// What surrounds an object that is written, in this process: looking never fails.
struct Surroundings<'a> {
    request: &'a AdmissionRequest<'a>,
    object: &'a Tree,
    settings: &'a Settings,
}

impl Surroundings<'_> {
    fn one(&self, resource: &str, namespace: &Text, name: &str) -> Option<Tree> {
        let key = Key { resource: resource.into(), namespace: namespace.clone(), name: name.into() };
        self.request.look.newest(&key).map(|object| object.tree)
    }

    fn ancestor(&self) -> Result<Option<Ancestor>, Lost> {
        let controller = meta::owners(self.object).find(|it| it.controller);
        let look = |owner: &Owner| {
            let plural = format!("{}s", owner.kind.to_lowercase());
            let group = owner.group();
            let resource = if group.is_empty() { plural } else { format!("{plural}.{group}") };
            Ok(self.one(&resource, self.request.namespace, &owner.name).map(|it| Above {
                uid: meta::uid(&it),
                queue: queue_of(&it),
                controller: meta::owners(&it).find(|it| it.controller),
            }))
        };
        ancestors::find(&meta::uid(self.object), controller.as_ref(), &self.settings.managed, look)
    }
}

impl Live for Surroundings<'_> {
    fn namespace(&self) -> Result<Tree, String> {
        let namespace = self.one("namespaces", &Text::new(), self.request.namespace);
        namespace.ok_or_else(|| format!("namespaces {:?} not found", self.request.namespace.as_str()))
    }

    fn ancestry(&self) -> Ancestry {
        match self.ancestor() {
            Ok(None) => Ancestry::Unmanaged,
            Ok(Some(_)) => Ancestry::Managed,
            Err(why) => Ancestry::Unknown(why.to_string()),
        }
    }

    fn has_default_queue(&self) -> bool {
        self.one("localqueues.kueue.x-k8s.io", self.request.namespace, DEFAULT).is_some()
    }

    fn has_default_priority(&self) -> bool {
        self.one("workloadpriorityclasses.kueue.x-k8s.io", &Text::new(), DEFAULT).is_some()
    }
}
