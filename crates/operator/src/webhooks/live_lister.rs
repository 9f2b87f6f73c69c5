//! Live reads of the cluster for admission: the lister of one review.
//!
//! # Guarantees
//!
//! - Reads use request slots of their own: a request of our controllers may be waiting for the very review that reads.
//! - No read takes longer than [`READ_TIME_MAX`], and none starts after the deadline of the review: the API server gives
//!   up soon after that.
//! - A review makes a bounded number of reads, however many objects it references.
//! - Dry runs end [`DRY_RUN_RESERVE`] before the deadline: the other handlers have time left.
//!
//! # Deliberately absent
//!
//! A cache beyond one review: an admission decision must not rest on stale data. Only the gang API is cached for a while, as
//! the controllers do.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use muster_api::client::{
    ApiError, ApiObject, ApiRequest, Kind, Preconditions, RequestTarget, RequestVerb, Subresource,
};
use muster_api::consts::{jobset as words, labels};
use muster_api::gang::GangSupport;
use muster_api::kinds;
use muster_api::meta;
use muster_api::train::RuntimeKind;
use muster_api::train::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES};
use muster_cluster::KubeApi;
use muster_jobset::admission::{Cause, DryRun, LiveLister};
use muster_trainer::kinds::admission::TrainingLister as TrainingLive;
use muster_tree::{Text, Tree, literal, tree};
use tokio::runtime::Handle;

use crate::{discovery, podgroup_detect};

/// Deadline of one read.
const READ_TIME_MAX: Duration = Duration::from_secs(5);
/// Objects of a kind that a review reads individually; beyond that, one list of the namespace is cheaper and bounds the
/// number of requests.
const GETS_MAX: usize = 4;

/// Time of a review that dry runs leave for reads and the reply.
const DRY_RUN_RESERVE: Duration = Duration::from_secs(4);
/// Prefix of the message when a webhook denied the request.
const WEBHOOK_DENIAL_PREFIX: &str = "admission webhook ";

/// How long a detected gang API is cached, and how long its absence.
const GANG_API_TTL: Duration = Duration::from_secs(600);
const NO_GANG_API_TTL: Duration = Duration::from_secs(10);
/// The verbs that update a status.
const WRITES: [&str; 2] = ["update", "patch"];

/// Review APIs: create-only, nothing is persisted.
static SELF_SUBJECT_REVIEWS: Kind = Kind {
    group: literal!("authentication.k8s.io"),
    version: literal!("v1"),
    plural: literal!("selfsubjectreviews"),
};
pub static SUBJECT_ACCESS_REVIEWS: Kind = Kind {
    group: literal!("authorization.k8s.io"),
    version: literal!("v1"),
    plural: literal!("subjectaccessreviews"),
};

/// Creates the lister of a review.
pub trait ListerFactory: Send + Sync {
    /// A lister that starts no read after `deadline`. Its reads block: it must be used outside the async worker threads.
    fn lister(&self, deadline: Instant) -> Box<dyn AdmissionLister + '_>;
}

/// Reads other objects on behalf of one review.
pub trait AdmissionLister {
    /// Gets an object; the namespace is empty for cluster-scoped objects.
    ///
    /// # Errors
    /// The read failed.
    fn one(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Option<Tree>, String>;
    /// Whether the user (`userInfo` of the review) acts as a controller of these objects: it is us, or it may write their
    /// status.
    ///
    /// # Errors
    /// The review API failed.
    fn is_controller_of(&self, user: &Tree, namespace: &str, of: (&str, &str)) -> Result<bool, String>;
    /// The gang API of the cluster; `None` where there is none.
    ///
    /// # Errors
    /// Discovery failed.
    fn gangs(&self) -> Result<Option<GangSupport>, String>;
    /// The lister of the JobSet handlers.
    fn for_jobsets(&self) -> &dyn LiveLister;
    /// The lister of the TrainJob handlers.
    fn for_training(&self) -> &dyn TrainingLive;
}

/// The requests behind a lister, each with a deadline; tests replace it.
trait ClusterReader {
    fn one(&self, on: RequestTarget, within: Duration) -> Result<Option<Tree>, String>;
    /// Lists by labels; `None` where the kind is not served.
    fn list(
        &self,
        kind: &Kind,
        namespace: &str,
        labels: &[(&str, &str)],
        within: Duration,
    ) -> Result<Option<Vec<Tree>>, String>;
    /// Creates a review object and returns its status.
    fn create_review(&self, kind: &Kind, question: Tree, within: Duration) -> Result<Tree, String>;
    /// Caches our own user name.
    fn own_name(&self) -> &OnceLock<Text>;
    fn gangs(&self, within: Duration) -> Result<Option<GangSupport>, String>;
    /// Status code and body of a dry-run create.
    fn dry_run(&self, on: RequestTarget, object: Tree, within: Duration) -> Result<(u16, Tree), String>;
}

/// Reads over a connection to the API server.
pub struct LiveCluster {
    api: KubeApi,
    runtime: Handle,
    own_name: OnceLock<Text>,
    /// Our namespace, for the dry run that detects the gang API.
    namespace: String,
    /// The detected gang API, and when it was detected.
    gang_api: Mutex<Option<(Instant, Option<GangSupport>)>>,
}

impl LiveCluster {
    /// Reads over this connection. Must be called inside a tokio runtime.
    pub fn new(api: &KubeApi, namespace: &str) -> LiveCluster {
        LiveCluster {
            api: api.without_circuit_breaker(),
            runtime: Handle::current(),
            own_name: OnceLock::new(),
            namespace: namespace.to_owned(),
            gang_api: Mutex::default(),
        }
    }

    fn wait<T>(
        &self,
        within: Duration,
        read: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        let late =
            |_| Err(ApiError::Indeterminate(format!("the API server did not answer within {within:.1?}")));
        self.runtime.block_on(async { tokio::time::timeout(within, read).await.unwrap_or_else(late) })
    }
}

impl ListerFactory for LiveCluster {
    fn lister(&self, deadline: Instant) -> Box<dyn AdmissionLister + '_> {
        Box::new(ReviewLister::new(self, deadline))
    }
}

impl ClusterReader for LiveCluster {
    fn one(&self, on: RequestTarget, within: Duration) -> Result<Option<Tree>, String> {
        let call = ApiRequest {
            field_manager: literal!("muster"),
            target: on,
            preconditions: Preconditions::default(),
            verb: RequestVerb::Get,
        };
        match self.wait(within, self.api.perform(&call)) {
            Ok(object) => Ok(Some(object.tree)),
            Err(ApiError::NotFound(_)) => Ok(None),
            Err(refusal) => Err(refusal.message()),
        }
    }

    fn list(
        &self,
        kind: &Kind,
        namespace: &str,
        labels: &[(&str, &str)],
        within: Duration,
    ) -> Result<Option<Vec<Tree>>, String> {
        let tree = |object: ApiObject| object.tree;
        match self.wait(within, self.api.list_by_labels(kind, namespace, labels)) {
            Ok(all) => Ok(Some(all.into_iter().map(tree).collect())),
            Err(ApiError::NotFound(_)) => Ok(None),
            Err(refusal) => Err(refusal.message()),
        }
    }

    fn create_review(&self, kind: &Kind, question: Tree, within: Duration) -> Result<Tree, String> {
        let (kind, none) = (kind.clone(), Text::new());
        let on = RequestTarget { kind, namespace: none.clone(), name: none, subresource: Subresource::Main };
        let call = ApiRequest {
            field_manager: literal!("muster"),
            target: on,
            preconditions: Preconditions::default(),
            verb: RequestVerb::Create(question),
        };
        let told = self.wait(within, self.api.perform(&call)).map_err(|refusal| refusal.message())?;
        Ok(told.tree.get("status").cloned().unwrap_or_default())
    }

    fn own_name(&self) -> &OnceLock<Text> {
        &self.own_name
    }

    fn gangs(&self, within: Duration) -> Result<Option<GangSupport>, String> {
        let remembered = || self.gang_api.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, known)) = *remembered() {
            let lasts = if known.is_some() { GANG_API_TTL } else { NO_GANG_API_TTL };
            if since.elapsed() < lasts {
                return Ok(known);
            }
        }
        let look = async {
            let served = self.api.served_resources().await?;
            Ok(podgroup_detect::detect(&self.api, &served, &self.namespace).await)
        };
        let found = self.wait(within, look).map_err(|refusal: ApiError| refusal.message())?;
        *remembered() = Some((Instant::now(), found));
        Ok(found)
    }

    fn dry_run(&self, on: RequestTarget, object: Tree, within: Duration) -> Result<(u16, Tree), String> {
        let call = ApiRequest {
            field_manager: literal!("muster"),
            target: on,
            preconditions: Preconditions::default(),
            verb: RequestVerb::Create(object),
        };
        self.wait(within, self.api.dry_run_raw(&call)).map_err(|refusal| refusal.message())
    }
}

/// A list of a namespace by name, or why it failed: the failure is remembered, too.
type ObjectsByName = Result<BTreeMap<Text, Tree>, String>;

/// The lister of one review.
struct ReviewLister<'a, R> {
    reads: &'a R,
    deadline: Instant,
    /// Individual reads so far, by kind.
    gets: RefCell<BTreeMap<Kind, usize>>,
    /// Lists of this review.
    lists: RefCell<BTreeMap<(Kind, Text), ObjectsByName>>,
}

impl<R: ClusterReader> ReviewLister<'_, R> {
    fn new(reads: &R, deadline: Instant) -> ReviewLister<'_, R> {
        ReviewLister { reads, deadline, gets: RefCell::default(), lists: RefCell::default() }
    }

    /// Deadline of the next read.
    fn read_timeout(&self) -> Result<Duration, String> {
        match self.deadline.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(left.min(READ_TIME_MAX)),
            _ => Err("no time is left for this review: the API server answers slowly".to_owned()),
        }
    }

    /// Our own user name, by a SelfSubjectReview, once per process.
    fn own_name(&self) -> Result<Text, String> {
        let known = self.reads.own_name();
        if let Some(name) = known.get() {
            return Ok(name.clone());
        }
        let question = tree!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let told = self.reads.create_review(&SELF_SUBJECT_REVIEWS, question, self.read_timeout()?)?;
        Ok(known.get_or_init(|| told.text_at(&["userInfo", "username"])).clone())
    }

    fn is_allowed(&self, user: &Tree, what: Tree) -> Result<bool, String> {
        let spec = tree!({"user": user.text_at(&["username"]), "resourceAttributes": what});
        let known =
            ["uid", "groups", "extra"].into_iter().filter_map(|key| Some((key, user.get(key)?.clone())));
        let spec = spec.merge(&Tree::map(known));
        let question =
            tree!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
        let told = self.reads.create_review(&SUBJECT_ACCESS_REVIEWS, question, self.read_timeout()?)?;
        Ok(told.bool_at(&["allowed"]) == Some(true))
    }

    /// Gets one of possibly many objects of a kind: individually at first, from one list afterwards.
    fn get_of_many(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        let mut alone = self.gets.borrow_mut();
        let alone = alone.entry(kind.clone()).or_default();
        if *alone < GETS_MAX {
            *alone += 1;
            return self.one(kind, namespace, name);
        }
        let mut known = self.lists.borrow_mut();
        let here = known.entry((kind.clone(), namespace.into()));
        let here = here.or_insert_with(|| self.list_by_name(kind, namespace));
        here.as_ref().map(|all| all.get(name).cloned()).map_err(Clone::clone)
    }

    fn list_by_name(&self, kind: &Kind, namespace: &str) -> ObjectsByName {
        let all = self.reads.list(kind, namespace, &[], self.read_timeout()?)?;
        Ok(all.unwrap_or_default().into_iter().map(|it| (meta::name(&it), it)).collect())
    }
}

impl<R: ClusterReader> AdmissionLister for ReviewLister<'_, R> {
    fn one(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        let (kind, namespace) = (kind.clone(), namespace.into());
        self.reads.one(
            RequestTarget { kind, namespace, name: name.into(), subresource: Subresource::Main },
            self.read_timeout()?,
        )
    }

    fn is_controller_of(
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
            if self.is_allowed(user, status)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn gangs(&self) -> Result<Option<GangSupport>, String> {
        self.reads.gangs(self.read_timeout()?)
    }

    fn for_jobsets(&self) -> &dyn LiveLister {
        self
    }

    fn for_training(&self) -> &dyn TrainingLive {
        self
    }
}

impl<R: ClusterReader> TrainingLive for ReviewLister<'_, R> {
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
        self.get_of_many(&kinds::PRIORITY_CLASSES, "", name).map(|it| it.is_some())
    }
}

impl<R: ClusterReader> LiveLister for ReviewLister<'_, R> {
    fn volume_claim(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        self.get_of_many(&kinds::PERSISTENT_VOLUME_CLAIMS, namespace, name)
    }

    /// Lists the namespace in the preferred version that is served.
    fn device_claims(&self, namespace: &str, _: &str) -> Result<Vec<Tree>, String> {
        for kind in discovery::resource_claim_kinds() {
            if let Some(all) = self.reads.list(&kind, namespace, &[], self.read_timeout()?)? {
                return Ok(all);
            }
        }
        Ok(Vec::new())
    }

    fn node(&self, name: &str) -> Result<Option<Tree>, String> {
        self.one(&kinds::NODES, "", name)
    }

    /// Selects by labels: every pod of a Job but the first looks for the first, and a Job may have very many.
    fn first_pods(&self, namespace: &str, _: &str, key: &str) -> Result<Vec<Tree>, String> {
        let first = [(words::JOB_KEY, key), (labels::COMPLETION_INDEX, "0")];
        Ok(self.reads.list(&kinds::PODS, namespace, &first, self.read_timeout()?)?.unwrap_or_default())
    }

    fn dry_run(&self, kind: &Kind, object: &Tree) -> DryRun {
        let until = self.deadline.checked_sub(DRY_RUN_RESERVE);
        let left = until.and_then(|until| until.checked_duration_since(Instant::now()));
        let Some(left) = left.filter(|left| !left.is_zero()) else {
            return DryRun::Unknown("no time is left for dry runs: the API server answers slowly".to_owned());
        };
        match self.reads.dry_run(meta::target(kind, object, Subresource::Main), object.clone(), left) {
            Ok((code, body)) => dry_run_of(code, &body),
            Err(why) => DryRun::Unknown(why),
        }
    }

    fn device_claim_kinds(&self) -> Vec<Kind> {
        discovery::resource_claim_kinds().collect()
    }
}

/// Interprets the reply to a dry-run create. Only the API server's own validation makes the object invalid: a webhook or
/// policy may decide differently when the controller creates it, and other errors are transient.
fn dry_run_of(code: u16, body: &Tree) -> DryRun {
    let (reason, message) = (body.str_at(&["reason"]), body.str_at(&["message"]));
    let causes = body.items_at(&["details", "causes"]).iter();
    let causes = causes.map(|it| Cause {
        field: it.str_at(&["field"]).to_owned(),
        message: it.str_at(&["message"]).to_owned(),
    });
    let causes: Vec<Cause> = causes.collect();
    let is_validation = reason == "Invalid"
        && !message.starts_with(WEBHOOK_DENIAL_PREFIX)
        && !causes.is_empty()
        && causes.iter().all(|it| !it.field.is_empty());
    match code {
        200..300 => DryRun::Valid,
        // The name is checked after validation, so the object is valid.
        409 if reason == "AlreadyExists" => DryRun::Valid,
        404 => DryRun::NotServed,
        422 if is_validation => DryRun::Invalid(causes),
        _ => DryRun::Unknown(if message.is_empty() { format!("{code}") } else { message.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster with the claims `c0` to `c9` that records its requests.
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

    impl ClusterReader for Noted {
        fn one(&self, on: RequestTarget, within: Duration) -> Result<Option<Tree>, String> {
            assert!(within <= READ_TIME_MAX);
            self.note(format!("{} {}", on.kind.plural, on.name))?;
            Ok(Some(tree!({"metadata": {"name": on.name}})))
        }

        fn list(
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

        fn create_review(&self, kind: &Kind, question: Tree, _: Duration) -> Result<Tree, String> {
            self.note(format!("{} {}", kind.plural, question.str_at(&["spec", "user"])))?;
            let admin = question.items_at(&["spec", "groups"]).contains(&Tree::from("admins"));
            Ok(tree!({"userInfo": {"username": "us"}, "allowed": admin}))
        }

        fn own_name(&self) -> &OnceLock<Text> {
            &self.own_name
        }

        fn gangs(&self, _: Duration) -> Result<Option<GangSupport>, String> {
            self.note("gangs".to_owned()).map(|()| None)
        }

        fn dry_run(&self, on: RequestTarget, object: Tree, within: Duration) -> Result<(u16, Tree), String> {
            assert!(within <= Duration::from_secs(600).saturating_sub(DRY_RUN_RESERVE));
            self.note(format!("dry run {} {}", on.kind.plural, on.name))?;
            Ok((201, object))
        }
    }

    #[test]
    fn dry_runs_leave_time_for_the_review() {
        let job = tree!({"metadata": {"name": "s-w-0", "namespace": "n"}});
        let (noted, broken) = (Noted::default(), Noted { broken: true, ..Noted::default() });
        let early = ReviewLister::new(&noted, soon());
        assert_eq!(early.dry_run(&kinds::JOBS, &job), DryRun::Valid);
        let late = ReviewLister::new(&noted, Instant::now() + DRY_RUN_RESERVE);
        assert!(matches!(late.dry_run(&kinds::JOBS, &job), DryRun::Unknown(why) if why.contains("no time")));
        assert!(late.one(&kinds::NODES, "", "n").is_ok(), "there is time for reads");
        assert_eq!(*noted.asked.borrow(), ["dry run jobs s-w-0", "nodes n"]);
        let answer = ReviewLister::new(&broken, soon()).dry_run(&kinds::JOBS, &job);
        assert_eq!(answer, DryRun::Unknown("broken".to_owned()));
    }

    #[test]
    fn only_validation_of_the_api_server_makes_an_object_invalid() {
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
    fn many_claims_are_read_by_one_list() {
        let noted = Noted::default();
        let looks = ReviewLister::new(&noted, soon());
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
    fn resource_claims_are_listed_in_the_served_version() {
        let noted = Noted::default();
        let looks = ReviewLister::new(&noted, soon());
        assert_eq!(looks.device_claims("n", "s-").map(|all| all.len()), Ok(10));
        assert_eq!(*noted.asked.borrow(), ["resourceclaims []"; 2], "v1, and then v1beta2");
        let broken = Noted { broken: true, ..Noted::default() };
        assert_eq!(ReviewLister::new(&broken, soon()).device_claims("n", "s-"), Err("broken".to_owned()));
    }

    #[test]
    fn a_failed_list_is_not_repeated() {
        let noted = Noted { broken: true, ..Noted::default() };
        let looks = ReviewLister::new(&noted, soon());
        for _ in 0..2_500 {
            assert_eq!(looks.volume_claim("n", "c"), Err("broken".to_owned()));
        }
        assert_eq!(noted.asked.borrow().len(), GETS_MAX + 1);
    }

    #[test]
    fn a_trainjob_review_makes_few_reads() {
        let noted = Noted::default();
        let looks = ReviewLister::new(&noted, soon());
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
        assert_eq!(asked.len(), 4 + GETS_MAX + 1, "{asked:?}");
    }

    #[test]
    fn nothing_is_read_after_the_deadline() {
        let noted = Noted::default();
        let looks = ReviewLister::new(&noted, Instant::now());
        for _ in 0..10 {
            assert!(looks.volume_claim("n", "c").is_err());
        }
        assert!(
            looks.node("a").is_err() && looks.gangs().is_err() && looks.first_pods("n", "a-0", "k").is_err()
        );
        assert!(noted.asked.borrow().is_empty());
    }

    #[test]
    fn only_the_first_pods_of_a_job_are_listed() {
        let noted = Noted::default();
        ReviewLister::new(&noted, soon()).first_pods("n", "a-0", "k").unwrap();
        let want = r#"pods [("jobset.sigs.k8s.io/job-key", "k"), ("batch.kubernetes.io/job-completion-index", "0")]"#;
        assert_eq!(*noted.asked.borrow(), [want]);
    }

    #[test]
    fn our_own_user_name_is_read_once_and_other_users_are_reviewed_each_time() {
        let noted = Noted::default();
        let looks = ReviewLister::new(&noted, soon());
        let user = |name: &str, group: &str| tree!({"username": name, "groups": [group]});
        for (user, want) in [
            (user("us", ""), true),
            (user("tenant", "tenants"), false),
            (user("chief", "admins"), true),
            (user("us", ""), true),
        ] {
            assert_eq!(
                looks.is_controller_of(&user, "n", ("kueue.x-k8s.io", "workloads")),
                Ok(want),
                "{user}"
            );
        }
        let reviews = "subjectaccessreviews";
        let [tenant, chief] = ["tenant", "chief"].map(|name| format!("{reviews} {name}"));
        let want = ["selfsubjectreviews ".to_owned(), tenant.clone(), tenant, chief];
        assert_eq!(*noted.asked.borrow(), want);
    }
}
