//! What training tells of itself: whose a report is, who may send it, how it is read, and what is written of it.
//!
//! In the order of a request: [`Subject::of`] its path, [`Subject::may`] with what a server says of its token, [`read`],
//! then what came of the write ([`kept`]).
//!
//! # Deliberately absent
//!
//! Whose tokens are good, and whether there is such a TrainJob: the server is asked.

use muster_api::port::Refusal;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_api::train::progress_body;
use muster_api::train::words::API_VERSION;
use muster_tree::{Text, Tree, tree};

/// The reason of a report that is too long.
pub const TOO_LARGE: &str = "RequestEntityTooLarge";
/// The longest report, in bytes.
pub const BYTES_MAX: usize = 65_536;

/// A report that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// What is answered when it is kept: what was read.
    pub echo: Tree,
    /// What is applied to the status as [`muster_api::train::words::STATUS_MANAGER`], forced; none when nothing was told.
    pub apply: Option<Tree>,
}

/// The TrainJob that a report is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Where it is.
    pub namespace: Text,
    /// What it is called.
    pub name: Text,
}

impl Subject {
    /// The one of this path; none when nothing is reported there.
    #[must_use]
    pub fn of(path: &str) -> Option<Subject> {
        let below = path.strip_prefix("/apis/")?.strip_prefix(API_VERSION)?;
        match below.split('/').collect::<Vec<_>>()[..] {
            ["", "namespaces", namespace, plural, name, "status"]
                if *plural == TRAIN_JOBS.plural && !namespace.is_empty() && !name.is_empty() =>
            {
                Some(Subject { namespace: namespace.into(), name: name.into() })
            }
            _ => None,
        }
    }

    /// For whom a token must be made to report of it.
    #[must_use]
    pub fn audience(&self) -> String {
        audience(&self.namespace, &self.name)
    }

    /// Whether this user may report: the one whom a server knows by a token for this audience, if it knows one.
    ///
    /// # Errors
    /// Nobody is known, or one of another namespace.
    pub fn may(&self, user: Option<&str>) -> Result<(), Refused> {
        let at = user.and_then(|it| it.strip_prefix(ACCOUNT)?.split_once(':'));
        if at.is_some_and(|(namespace, _)| namespace == self.namespace.as_str()) {
            return Ok(());
        }
        Err(Refused { code: 403, reason: "Forbidden", message: "Forbidden".to_owned() })
    }
}

/// How the names of service accounts begin; a namespace follows, and a name.
const ACCOUNT: &str = "system:serviceaccount:";

/// Why a report is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The code.
    pub code: u16,
    /// The reason.
    pub reason: &'static str,
    /// In words.
    pub message: String,
}

impl Refused {
    /// The answer's body.
    #[must_use]
    pub fn body(&self) -> Tree {
        tree!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message.as_str(), "reason": self.reason, "code": u32::from(self.code)})
    }
}

/// Reads the report of a TrainJob.
///
/// # Errors
/// It is too long or cannot be understood.
pub fn read(namespace: &Text, name: &Text, body: &[u8]) -> Result<Report, Refused> {
    if body.len() > BYTES_MAX {
        let message = format!("the report has more than {BYTES_MAX} bytes");
        return Err(Refused { code: 413, reason: TOO_LARGE, message });
    }
    let read = Tree::parse(body).ok().filter(Tree::is_map);
    let Some(read) = read else {
        return Err(Refused { code: 422, reason: "Invalid", message: "Invalid payload".to_owned() });
    };
    let told = read.get("trainerStatus").filter(|it| !it.is_null());
    let apply = told.map(|told| progress_body(namespace, name, told));
    let echo = told.map_or_else(Tree::empty_map, |told| tree!({"trainerStatus": told}));
    Ok(Report { echo, apply })
}

/// The answer, after a report was applied or refused.
///
/// # Errors
/// It was refused, in the words of the server.
pub fn kept(report: &Report, applied: Result<(), Refusal>) -> Result<Tree, Refused> {
    let Err(refusal) = applied else { return Ok(report.echo.clone()) };
    let (code, reason) = match &refusal {
        Refusal::NotFound(_) => {
            let message = "Train job not found".to_owned();
            return Err(Refused { code: 404, reason: "NotFound", message });
        }
        Refusal::Invalid(_) => (422, "Invalid"),
        Refusal::Forbidden(_) => (403, "Forbidden"),
        Refusal::Conflict(_) | Refusal::AlreadyExists(_) => (409, "Conflict"),
        Refusal::Busy { .. } => (503, "ServiceUnavailable"),
        Refusal::Unknown(_) => (500, "InternalError"),
    };
    Err(Refused { code, reason, message: refusal.words() })
}

/// For whom a token must be made to report of a TrainJob.
#[must_use]
pub fn audience(namespace: &str, name: &str) -> String {
    format!("trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs/{name}/status")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Report, Refused> {
        super::read(&"ns".into(), &"a".into(), body.as_bytes())
    }

    #[test]
    fn a_report_is_applied_as_a_whole() {
        let told = r#"{"trainerStatus":{"progressPercentage":5,"lastUpdatedTime":"2026-01-01T00:00:00Z"}}"#;
        let report = read(told).unwrap();
        assert_eq!(
            report.echo.to_json(),
            r#"{"trainerStatus":{"lastUpdatedTime":"2026-01-01T00:00:00Z","progressPercentage":5}}"#
        );
        let body = report.apply.unwrap();
        assert_eq!(body.int_at(&["status", "trainerStatus", "progressPercentage"]), Some(5));
        assert_eq!((body.str_at(&["kind"]), body.str_at(&["metadata", "name"])), ("TrainJob", "a"));
    }

    #[test]
    fn a_report_of_nothing_writes_nothing() {
        for body in ["{}", r#"{"other": 1}"#, r#"{"trainerStatus": null}"#] {
            assert_eq!(read(body), Ok(Report { echo: Tree::empty_map(), apply: None }), "{body}");
        }
    }

    #[test]
    fn paths_say_whose_report_it_is() {
        let subject = Subject { namespace: "n".into(), name: "j".into() };
        let path = format!("/apis/{}", subject.audience());
        assert_eq!(Subject::of(&path), Some(subject));
        for other in ["/apis/trainer.kubeflow.org/v1alpha1/namespaces/n/trainjobs/j", "/", "/apis/x/y"] {
            assert_eq!(Subject::of(other), None, "{other}");
            assert_eq!(Subject::of(&format!("{path}/more")), None);
        }
        assert_eq!(Subject::of(&path.replace("/n/", "//")), None, "no namespace");
    }

    #[test]
    fn accounts_report_of_their_own_namespace() {
        let subject = Subject { namespace: "n".into(), name: "j".into() };
        for (user, may) in [
            (Some("system:serviceaccount:n:default"), true),
            (Some("system:serviceaccount:other:default"), false),
            (Some("system:serviceaccount:n"), false),
            (Some("muster-admin"), false),
            (None, false),
        ] {
            assert_eq!(subject.may(user).is_ok(), may, "{user:?}");
        }
        assert_eq!(subject.may(None).unwrap_err().code, 403);
    }

    #[test]
    fn what_the_server_says_of_a_report_is_passed_on() {
        let report = read(r#"{"trainerStatus": {}}"#).unwrap();
        assert_eq!(kept(&report, Ok(())), Ok(report.echo.clone()));
        for (refusal, code, message) in [
            (Refusal::NotFound("trainjobs \"a\" not found".to_owned()), 404, "Train job not found"),
            (Refusal::Invalid("TrainJob \"a\" is invalid".to_owned()), 422, "TrainJob \"a\" is invalid"),
            (Refusal::Unknown("lost".to_owned()), 500, "lost"),
        ] {
            let refused = kept(&report, Err(refusal)).unwrap_err();
            assert_eq!((refused.code, refused.message.as_str()), (code, message));
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for (body, code, reason) in [
            ("[1]".to_owned(), 422, "Invalid"),
            ("no".to_owned(), 422, "Invalid"),
            ("x".repeat(BYTES_MAX + 1), 413, "RequestEntityTooLarge"),
        ] {
            let refused = read(&body).unwrap_err();
            assert_eq!((refused.code, refused.reason), (code, reason));
            assert_eq!(refused.body().int_at(&["code"]), Some(i64::from(code)));
        }
        assert_eq!(audience("n", "j"), "trainer.kubeflow.org/v1alpha1/namespaces/n/trainjobs/j/status");
    }
}
