//! What admission may look at, read from a cluster.
//!
//! # Invariants
//!
//! - Reads have slots of their own: a call of our controllers may be waiting for the very answer that needs them.
//! - No read takes longer than [`READ_TIME_MAX`], and no review reads after its deadline: the server gives up soon after.
//! - A review makes a bounded number of reads, however much it asks about.
//! - Dry runs end [`DRY_RUN_RESERVE`] before the deadline of a review: whatever else decides about the object has time left.
//!
//! # Deliberately absent
//!
//! A cache beyond one review: what is read decides whether something is kept, and has to be true now. How gangs are spelled is
//! remembered for a while, as controllers do.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use muster_api::gang::Gangs;
use muster_api::kinds;
use muster_api::meta;
use muster_api::port::{Act, Call, Guard, Kind, Object, Part, Refusal, Target};
use muster_api::train::RuntimeKind;
use muster_api::train::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES};
use muster_api::words::{jobset as words, labels};
use muster_cluster::KubeApi;
use muster_jobset::admission::{Cause, DryRun, Live};
use muster_trainer::kinds::admission::Live as TrainingLive;
use muster_tree::{Text, Tree, literal, tree};
use tokio::runtime::Handle;

use crate::{gangs, surroundings};

/// How long one read may take.
const READ_TIME_MAX: Duration = Duration::from_secs(5);
/// Objects of a kind that a review reads one by one where it may ask about many; who asks about more gets all of the
/// namespace read once.
const ALONE_MAX: usize = 4;

/// Time of a review that is kept for reads and for the answer when objects are validated by dry runs.
const DRY_RUN_RESERVE: Duration = Duration::from_secs(4);
/// How the server begins the message of a webhook's denial.
const BY_WEBHOOK: &str = "admission webhook ";

/// For how long it is believed how gangs are spelled, and for how long that there are none.
const SPELLED_FOR: Duration = Duration::from_secs(600);
const UNSPELLED_FOR: Duration = Duration::from_secs(10);
/// The verbs by which a status is written.
const WRITES: [&str; 2] = ["update", "patch"];

/// Questions to a server of which nothing is kept: who asks, and what somebody may do.
static WHO_AM_I: Kind = Kind {
    group: literal!("authentication.k8s.io"),
    version: literal!("v1"),
    plural: literal!("selfsubjectreviews"),
};
pub static WHO_MAY: Kind = Kind {
    group: literal!("authorization.k8s.io"),
    version: literal!("v1"),
    plural: literal!("subjectaccessreviews"),
};

/// Where reviews look at other objects.
pub trait Source: Send + Sync {
    /// For one review, which does not read after this time. Wants to be asked outside the threads of the runtime.
    fn until(&self, deadline: Instant) -> Box<dyn Look + '_>;
}

/// What one review may look at.
pub trait Look {
    /// An object; the namespace is empty where objects have none.
    ///
    /// # Errors
    /// It could not be read.
    fn one(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Option<Tree>, String>;
    /// Whether somebody, as the server knows him, decides about objects of this group and plural in this namespace: we
    /// ourselves, and whoever may write their status.
    ///
    /// # Errors
    /// The server does not tell.
    fn decides_about(&self, user: &Tree, namespace: &str, of: (&str, &str)) -> Result<bool, String>;
    /// How pods name their gang; `None` where there are none.
    ///
    /// # Errors
    /// The server does not tell.
    fn gangs(&self) -> Result<Option<Gangs>, String>;
    /// The same for those who decide about JobSets.
    fn for_jobsets(&self) -> &dyn Live;
    /// The same for those who decide about TrainJobs.
    fn for_training(&self) -> &dyn TrainingLive;
}

/// Reads of a server, each within a time.
trait Reads {
    fn one(&self, on: Target, within: Duration) -> Result<Option<Tree>, String>;
    /// Those with these labels; `None` where the server has no such kind.
    fn several(
        &self,
        kind: &Kind,
        namespace: &str,
        labels: &[(&str, &str)],
        within: Duration,
    ) -> Result<Option<Vec<Tree>>, String>;
    /// The status of a question to the server.
    fn answer(&self, kind: &Kind, question: Tree, within: Duration) -> Result<Tree, String>;
    /// By which name the server knows us, if that was found out before.
    fn own_name(&self) -> &OnceLock<Text>;
    /// How gangs are spelled there.
    fn gangs(&self, within: Duration) -> Result<Option<Gangs>, String>;
    /// The code and the body of the answer to a dry run of a create.
    fn dry_run(&self, on: Target, object: Tree, within: Duration) -> Result<(u16, Tree), String>;
}

/// Objects of a cluster.
pub struct LiveCluster {
    api: KubeApi,
    runtime: Handle,
    own_name: OnceLock<Text>,
    /// Our namespace, in which it is rehearsed how gangs are spelled.
    namespace: String,
    /// How they are, and when that was found out.
    spelled: Mutex<Option<(Instant, Option<Gangs>)>>,
}

impl LiveCluster {
    /// Those that this connection shows to whoever runs in this namespace. Wants to be called inside a runtime.
    pub fn new(api: &KubeApi, namespace: &str) -> LiveCluster {
        LiveCluster {
            api: api.unhindered(),
            runtime: Handle::current(),
            own_name: OnceLock::new(),
            namespace: namespace.to_owned(),
            spelled: Mutex::default(),
        }
    }

    fn wait<T>(
        &self,
        within: Duration,
        read: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let late = |_| Err(Refusal::Unknown(format!("the API server did not answer within {within:.1?}")));
        self.runtime.block_on(async { tokio::time::timeout(within, read).await.unwrap_or_else(late) })
    }
}

impl Source for LiveCluster {
    fn until(&self, deadline: Instant) -> Box<dyn Look + '_> {
        Box::new(Looks::new(self, deadline))
    }
}

impl Reads for LiveCluster {
    fn one(&self, on: Target, within: Duration) -> Result<Option<Tree>, String> {
        let call = Call { by: literal!("muster"), on, guard: Guard::default(), act: Act::Get };
        match self.wait(within, self.api.perform(&call)) {
            Ok(object) => Ok(Some(object.tree)),
            Err(Refusal::NotFound(_)) => Ok(None),
            Err(refusal) => Err(refusal.words()),
        }
    }

    fn several(
        &self,
        kind: &Kind,
        namespace: &str,
        labels: &[(&str, &str)],
        within: Duration,
    ) -> Result<Option<Vec<Tree>>, String> {
        let tree = |object: Object| object.tree;
        match self.wait(within, self.api.labelled(kind, namespace, labels)) {
            Ok(all) => Ok(Some(all.into_iter().map(tree).collect())),
            Err(Refusal::NotFound(_)) => Ok(None),
            Err(refusal) => Err(refusal.words()),
        }
    }

    fn answer(&self, kind: &Kind, question: Tree, within: Duration) -> Result<Tree, String> {
        let (kind, none) = (kind.clone(), Text::new());
        let on = Target { kind, namespace: none.clone(), name: none, part: Part::Main };
        let call = Call { by: literal!("muster"), on, guard: Guard::default(), act: Act::Create(question) };
        let told = self.wait(within, self.api.perform(&call)).map_err(|refusal| refusal.words())?;
        Ok(told.tree.get("status").cloned().unwrap_or_default())
    }

    fn own_name(&self) -> &OnceLock<Text> {
        &self.own_name
    }

    fn gangs(&self, within: Duration) -> Result<Option<Gangs>, String> {
        let remembered = || self.spelled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, known)) = *remembered() {
            let lasts = if known.is_some() { SPELLED_FOR } else { UNSPELLED_FOR };
            if since.elapsed() < lasts {
                return Ok(known);
            }
        }
        let look = async {
            let served = self.api.served().await?;
            Ok(gangs::look(&self.api, &served, &self.namespace).await)
        };
        let found = self.wait(within, look).map_err(|refusal: Refusal| refusal.words())?;
        *remembered() = Some((Instant::now(), found));
        Ok(found)
    }

    fn dry_run(&self, on: Target, object: Tree, within: Duration) -> Result<(u16, Tree), String> {
        let call = Call { by: literal!("muster"), on, guard: Guard::default(), act: Act::Create(object) };
        self.wait(within, self.api.dry_run(&call)).map_err(|refusal| refusal.words())
    }
}

/// The objects of a kind in a namespace by their names, or why they are not known.
type Named = Result<BTreeMap<Text, Tree>, String>;

/// What one review looks at.
struct Looks<'a, R> {
    reads: &'a R,
    deadline: Instant,
    /// How many of a kind were read one by one.
    alone: RefCell<BTreeMap<Kind, usize>>,
    /// What was read at once.
    known: RefCell<BTreeMap<(Kind, Text), Named>>,
}

impl<R: Reads> Looks<'_, R> {
    fn new(reads: &R, deadline: Instant) -> Looks<'_, R> {
        Looks { reads, deadline, alone: RefCell::default(), known: RefCell::default() }
    }

    /// How long the next read may take.
    fn within(&self) -> Result<Duration, String> {
        match self.deadline.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(left.min(READ_TIME_MAX)),
            _ => Err("no time is left for this review: the API server answers slowly".to_owned()),
        }
    }

    /// By which name the server knows us: found out once.
    fn own_name(&self) -> Result<Text, String> {
        let known = self.reads.own_name();
        if let Some(name) = known.get() {
            return Ok(name.clone());
        }
        let question = tree!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let told = self.reads.answer(&WHO_AM_I, question, self.within()?)?;
        Ok(known.get_or_init(|| told.text_at(&["userInfo", "username"])).clone())
    }

    /// Whether somebody may do this.
    fn may(&self, user: &Tree, what: Tree) -> Result<bool, String> {
        let spec = tree!({"user": user.text_at(&["username"]), "resourceAttributes": what});
        let known =
            ["uid", "groups", "extra"].into_iter().filter_map(|key| Some((key, user.get(key)?.clone())));
        let spec = spec.merge(&Tree::map(known));
        let question =
            tree!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
        let told = self.reads.answer(&WHO_MAY, question, self.within()?)?;
        Ok(told.bool_at(&["allowed"]) == Some(true))
    }

    /// One of possibly many that are asked about.
    fn one_of_many(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        let mut alone = self.alone.borrow_mut();
        let alone = alone.entry(kind.clone()).or_default();
        if *alone < ALONE_MAX {
            *alone += 1;
            return self.one(kind, namespace, name);
        }
        let mut known = self.known.borrow_mut();
        let here = known.entry((kind.clone(), namespace.into()));
        let here = here.or_insert_with(|| self.all_named(kind, namespace));
        here.as_ref().map(|all| all.get(name).cloned()).map_err(Clone::clone)
    }

    fn all_named(&self, kind: &Kind, namespace: &str) -> Named {
        let all = self.reads.several(kind, namespace, &[], self.within()?)?;
        Ok(all.unwrap_or_default().into_iter().map(|it| (meta::name(&it), it)).collect())
    }
}

impl<R: Reads> Look for Looks<'_, R> {
    fn one(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        let (kind, namespace) = (kind.clone(), namespace.into());
        self.reads.one(Target { kind, namespace, name: name.into(), part: Part::Main }, self.within()?)
    }

    fn decides_about(
        &self,
        user: &Tree,
        namespace: &str,
        (group, plural): (&str, &str),
    ) -> Result<bool, String> {
        if self.own_name()? == user.text_at(&["username"]) {
            return Ok(true);
        }
        for verb in WRITES {
            let status = tree!({"namespace": namespace, "verb": verb, "group": group, "resource": plural,
                "subresource": "status"});
            if self.may(user, status)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn gangs(&self) -> Result<Option<Gangs>, String> {
        self.reads.gangs(self.within()?)
    }

    fn for_jobsets(&self) -> &dyn Live {
        self
    }

    fn for_training(&self) -> &dyn TrainingLive {
        self
    }
}

impl<R: Reads> TrainingLive for Looks<'_, R> {
    fn runtime(&self, kind: RuntimeKind, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        match kind {
            RuntimeKind::Namespaced => self.one(&TRAINING_RUNTIMES, namespace, name),
            RuntimeKind::Cluster => self.one(&CLUSTER_TRAINING_RUNTIMES, "", name),
        }
    }

    fn config_map(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        self.one(&kinds::CONFIG_MAPS, namespace, name)
    }

    fn jobset(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        self.one(&kinds::JOBSETS, namespace, name)
    }

    fn has_priority_class(&self, name: &str) -> Result<bool, String> {
        self.one_of_many(&kinds::PRIORITY_CLASSES, "", name).map(|it| it.is_some())
    }
}

impl<R: Reads> Live for Looks<'_, R> {
    fn volume_claim(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        self.one_of_many(&kinds::CLAIMS, namespace, name)
    }

    /// All of the namespace, in the best version that is served.
    fn device_claims(&self, namespace: &str, _: &str) -> Result<Vec<Tree>, String> {
        for kind in surroundings::claim_kinds() {
            if let Some(all) = self.reads.several(&kind, namespace, &[], self.within()?)? {
                return Ok(all);
            }
        }
        Ok(Vec::new())
    }

    fn node(&self, name: &str) -> Result<Option<Tree>, String> {
        self.one(&kinds::NODES, "", name)
    }

    /// By labels alone: every pod of a Job but the first asks for the first, and a Job may have very many.
    fn first_pods(&self, namespace: &str, _: &str, key: &str) -> Result<Vec<Tree>, String> {
        let first = [(words::JOB_KEY, key), (labels::COMPLETION_INDEX, "0")];
        Ok(self.reads.several(&kinds::PODS, namespace, &first, self.within()?)?.unwrap_or_default())
    }

    fn dry_run(&self, kind: &Kind, object: &Tree) -> DryRun {
        let until = self.deadline.checked_sub(DRY_RUN_RESERVE);
        let left = until.and_then(|until| until.checked_duration_since(Instant::now()));
        let Some(left) = left.filter(|left| !left.is_zero()) else {
            return DryRun::Unknown("no time is left for dry runs: the API server answers slowly".to_owned());
        };
        match self.reads.dry_run(meta::target(kind, object, Part::Main), object.clone(), left) {
            Ok((code, body)) => dry_run_of(code, &body),
            Err(why) => DryRun::Unknown(why),
        }
    }

    fn device_claim_kinds(&self) -> Vec<Kind> {
        surroundings::claim_kinds().collect()
    }
}

/// What the answer to a dry run says about the object. Only the server's own validation makes it invalid: a webhook or a policy
/// may judge the object otherwise when its owner creates it, and whatever else went wrong may pass.
fn dry_run_of(code: u16, body: &Tree) -> DryRun {
    let (reason, message) = (body.str_at(&["reason"]), body.str_at(&["message"]));
    let causes = body.items_at(&["details", "causes"]).iter();
    let causes = causes.map(|it| Cause {
        field: it.str_at(&["field"]).to_owned(),
        message: it.str_at(&["message"]).to_owned(),
    });
    let causes: Vec<Cause> = causes.collect();
    let is_validation = reason == "Invalid"
        && !message.starts_with(BY_WEBHOOK)
        && !causes.is_empty()
        && causes.iter().all(|it| !it.field.is_empty());
    match code {
        200..300 => DryRun::Valid,
        // Names are looked up after validation.
        409 if reason == "AlreadyExists" => DryRun::Valid,
        404 => DryRun::NotServed,
        422 if is_validation => DryRun::Invalid(causes),
        _ => DryRun::Unknown(if message.is_empty() { format!("{code}") } else { message.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with the claims `c0` to `c9` that notes what it is asked for.
    #[derive(Default)]
    struct Noted {
        asked: RefCell<Vec<String>>,
        own_name: OnceLock<Text>,
        broken: bool,
    }

    impl Noted {
        fn note(&self, words: String) -> Result<(), String> {
            self.asked.borrow_mut().push(words);
            if self.broken { Err("broken".to_owned()) } else { Ok(()) }
        }
    }

    impl Reads for Noted {
        fn one(&self, on: Target, within: Duration) -> Result<Option<Tree>, String> {
            assert!(within <= READ_TIME_MAX);
            self.note(format!("{} {}", on.kind.plural, on.name))?;
            Ok(Some(tree!({"metadata": {"name": on.name}})))
        }

        fn several(
            &self,
            kind: &Kind,
            _: &str,
            labels: &[(&str, &str)],
            _: Duration,
        ) -> Result<Option<Vec<Tree>>, String> {
            self.note(format!("{} {labels:?}", kind.plural))?;
            let is_served = kind.group != kinds::RESOURCE_CLAIMS.group || kind.version == "v1beta2";
            let all = || (0..10).map(|at| tree!({"metadata": {"name": (format!("c{at}"))}})).collect();
            Ok(is_served.then(all))
        }

        fn answer(&self, kind: &Kind, question: Tree, _: Duration) -> Result<Tree, String> {
            self.note(format!("{} {}", kind.plural, question.str_at(&["spec", "user"])))?;
            let admin = question.items_at(&["spec", "groups"]).contains(&Tree::from("admins"));
            Ok(tree!({"userInfo": {"username": "us"}, "allowed": admin}))
        }

        fn own_name(&self) -> &OnceLock<Text> {
            &self.own_name
        }

        fn gangs(&self, _: Duration) -> Result<Option<Gangs>, String> {
            self.note("gangs".to_owned()).map(|()| None)
        }

        fn dry_run(&self, on: Target, object: Tree, within: Duration) -> Result<(u16, Tree), String> {
            assert!(within <= Duration::from_secs(600).saturating_sub(DRY_RUN_RESERVE));
            self.note(format!("dry run {} {}", on.kind.plural, on.name))?;
            Ok((201, object))
        }
    }

    #[test]
    fn dry_runs_end_before_the_review_does() {
        let job = tree!({"metadata": {"name": "s-w-0", "namespace": "n"}});
        let (noted, broken) = (Noted::default(), Noted { broken: true, ..Noted::default() });
        let early = Looks::new(&noted, soon());
        assert_eq!(early.dry_run(&kinds::JOBS, &job), DryRun::Valid);
        let late = Looks::new(&noted, Instant::now() + DRY_RUN_RESERVE);
        assert!(matches!(late.dry_run(&kinds::JOBS, &job), DryRun::Unknown(why) if why.contains("no time")));
        assert!(late.one(&kinds::NODES, "", "n").is_ok(), "there is time for reads");
        assert_eq!(*noted.asked.borrow(), ["dry run jobs s-w-0", "nodes n"]);
        let answer = Looks::new(&broken, soon()).dry_run(&kinds::JOBS, &job);
        assert_eq!(answer, DryRun::Unknown("broken".to_owned()));
    }

    #[test]
    fn only_the_validation_of_the_server_makes_an_object_invalid() {
        let status = |reason: &str, message: &str, causes: &Tree| tree!({"kind": "Status", "reason": reason, "message": message, "details": {"causes": causes.clone()}});
        let none = tree!([]);
        let field =
            tree!([{"reason": "FieldValueInvalid", "field": "spec.a", "message": "Invalid value: 1: no"}]);
        let policy = tree!([{"message": "no"}]);
        let cause = Cause { field: "spec.a".to_owned(), message: "Invalid value: 1: no".to_owned() };
        let unknown = |why: &str| DryRun::Unknown(why.to_owned());
        for (says, code, body, want) in [
            ("created", 201, tree!({"kind": "Job"}), DryRun::Valid),
            ("the name is taken", 409, status("AlreadyExists", "there", &none), DryRun::Valid),
            ("invalid", 422, status("Invalid", "Job is invalid", &field), DryRun::Invalid(vec![cause])),
            (
                "a policy",
                422,
                status("Invalid", "denied by a policy", &policy),
                unknown("denied by a policy"),
            ),
            (
                "a webhook",
                422,
                status("Invalid", "admission webhook \"x\" denied the request: no", &field),
                unknown("admission webhook \"x\" denied the request: no"),
            ),
            (
                "a webhook that cannot be dry run",
                400,
                status("BadRequest", "admission webhook \"x\" does not support dry run", &none),
                unknown("admission webhook \"x\" does not support dry run"),
            ),
            ("quota", 403, status("Forbidden", "exceeded quota", &none), unknown("exceeded quota")),
            ("no such kind", 404, status("NotFound", "not found", &none), DryRun::NotServed),
            ("busy", 429, status("TooManyRequests", "later", &none), unknown("later")),
            ("no words", 500, tree!({}), unknown("500")),
        ] {
            assert_eq!(dry_run_of(code, &body), want, "{says}");
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    #[test]
    fn many_claims_are_read_at_once() {
        let noted = Noted::default();
        let looks = Looks::new(&noted, soon());
        for at in 0..10 {
            let found = looks.volume_claim("n", &format!("c{at}")).unwrap().unwrap();
            assert_eq!(meta::name(&found), format!("c{at}"));
        }
        assert_eq!(looks.volume_claim("n", "absent"), Ok(None));
        let claims = "persistentvolumeclaims";
        let want: Vec<String> =
            (0..4).map(|at| format!("{claims} c{at}")).chain([format!("{claims} []")]).collect();
        assert_eq!(*noted.asked.borrow(), want);
    }

    #[test]
    fn device_claims_are_read_in_the_version_that_is_served() {
        let noted = Noted::default();
        let looks = Looks::new(&noted, soon());
        assert_eq!(looks.device_claims("n", "s-").map(|all| all.len()), Ok(10));
        assert_eq!(*noted.asked.borrow(), ["resourceclaims []"; 2], "v1, and then v1beta2");
        let broken = Noted { broken: true, ..Noted::default() };
        assert_eq!(Looks::new(&broken, soon()).device_claims("n", "s-"), Err("broken".to_owned()));
    }

    #[test]
    fn what_cannot_be_read_is_not_read_again_and_again() {
        let noted = Noted { broken: true, ..Noted::default() };
        let looks = Looks::new(&noted, soon());
        for _ in 0..2_500 {
            assert_eq!(looks.volume_claim("n", "c"), Err("broken".to_owned()));
        }
        assert_eq!(noted.asked.borrow().len(), ALONE_MAX + 1);
    }

    #[test]
    fn what_a_trainjob_needs_is_read_in_few_steps() {
        let noted = Noted::default();
        let looks = Looks::new(&noted, soon());
        let training = looks.for_training();
        training.runtime(RuntimeKind::Namespaced, "n", "r").unwrap();
        training.runtime(RuntimeKind::Cluster, "n", "r").unwrap();
        training.config_map("n", "s").unwrap();
        training.jobset("n", "j").unwrap();
        for at in 0..100 {
            assert_eq!(training.has_priority_class(&format!("c{at}")), Ok(at < 10), "{at}");
        }
        let asked = noted.asked.borrow();
        let want = ["trainingruntimes r", "clustertrainingruntimes r", "configmaps s", "jobsets j"]
            .map(str::to_owned);
        assert_eq!(asked[..4], want);
        assert_eq!(asked.len(), 4 + ALONE_MAX + 1, "{asked:?}");
    }

    #[test]
    fn nothing_is_read_after_the_deadline() {
        let noted = Noted::default();
        let looks = Looks::new(&noted, Instant::now());
        for _ in 0..10 {
            assert!(looks.volume_claim("n", "c").is_err());
        }
        assert!(
            looks.node("a").is_err() && looks.gangs().is_err() && looks.first_pods("n", "a-0", "k").is_err()
        );
        assert!(noted.asked.borrow().is_empty());
    }

    #[test]
    fn of_the_pods_of_a_job_only_the_first_are_read() {
        let noted = Noted::default();
        Looks::new(&noted, soon()).first_pods("n", "a-0", "k").unwrap();
        let want = r#"pods [("jobset.sigs.k8s.io/job-key", "k"), ("batch.kubernetes.io/job-completion-index", "0")]"#;
        assert_eq!(*noted.asked.borrow(), [want]);
    }

    #[test]
    fn who_we_are_is_asked_once_and_others_whenever_it_matters() {
        let noted = Noted::default();
        let looks = Looks::new(&noted, soon());
        let user = |name: &str, group: &str| tree!({"username": name, "groups": [group]});
        for (user, want) in [
            (user("us", ""), true),
            (user("tenant", "tenants"), false),
            (user("chief", "admins"), true),
            (user("us", ""), true),
        ] {
            assert_eq!(looks.decides_about(&user, "n", ("kueue.x-k8s.io", "workloads")), Ok(want), "{user}");
        }
        let reviews = "subjectaccessreviews";
        let [tenant, chief] = ["tenant", "chief"].map(|name| format!("{reviews} {name}"));
        let want = ["selfsubjectreviews ".to_owned(), tenant.clone(), tenant, chief];
        assert_eq!(*noted.asked.borrow(), want);
    }
}
