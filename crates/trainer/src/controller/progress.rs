//! Progress reports of training pods: the request path, authorization, the body, and the apply to
//! `status.trainerStatus`.
//!
//! In the order of a request: [`ProgressTarget::of`] parses its path, [`ProgressTarget::authorize`] checks the user
//! of its token, [`read`] parses the body, and [`reply`] maps the result of the apply to a response.
//!
//! # Deliberately absent
//!
//! Authentication, which is a TokenReview, and the existence of the TrainJob: the API server checks both.

use muster_api::client::ApiError;
use muster_api::train::consts::API_VERSION;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_api::train::progress_apply;
use muster_tree::{Text, Tree, tree};

/// The `reason` in the Status for a report that is too large.
pub const TOO_LARGE: &str = "RequestEntityTooLarge";
/// The maximum size of a report, in bytes.
pub const BYTES_MAX: usize = 65_536;

/// A parsed progress report.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressReport {
    /// The response body if the apply succeeds: the fields that were parsed.
    pub echo: Tree,
    /// Server-side applied to the status with force, by [`muster_api::train::consts::STATUS_MANAGER`]; `None` if the
    /// report is empty.
    pub apply: Option<Tree>,
}

/// The TrainJob that a report belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressTarget {
    pub namespace: Text,
    pub name: Text,
}

impl ProgressTarget {
    /// Parses a request path; `None` if it is not the status of a TrainJob.
    #[must_use]
    pub fn of(path: &str) -> Option<ProgressTarget> {
        let below = path.strip_prefix("/apis/")?.strip_prefix(API_VERSION)?;
        match below.split('/').collect::<Vec<_>>()[..] {
            ["", "namespaces", namespace, plural, name, "status"]
                if *plural == TRAIN_JOBS.plural && !namespace.is_empty() && !name.is_empty() =>
            {
                Some(ProgressTarget { namespace: namespace.into(), name: name.into() })
            }
            _ => None,
        }
    }

    /// The audience that tokens for its reports must have.
    #[must_use]
    pub fn audience(&self) -> String {
        audience(&self.namespace, &self.name)
    }

    /// Authorizes the user that a TokenReview for this audience returned, if it returned one.
    ///
    /// # Errors
    /// The token is not authenticated, or its user is no service account of the namespace of the TrainJob.
    pub fn authorize(&self, user: Option<&str>) -> Result<(), ProgressError> {
        let at = user.and_then(|it| it.strip_prefix(ACCOUNT)?.split_once(':'));
        // Any service account of the namespace may report: the audience limits the token to this TrainJob.
        if at.is_some_and(|(namespace, _)| namespace == self.namespace.as_str()) {
            return Ok(());
        }
        Err(ProgressError { code: 403, reason: "Forbidden", message: "Forbidden".to_owned() })
    }
}

/// The prefix of user names of service accounts; the namespace and the name follow.
const ACCOUNT: &str = "system:serviceaccount:";

/// Why a report is rejected, as an HTTP response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressError {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
}

impl ProgressError {
    #[must_use]
    pub fn body(&self) -> Tree {
        tree!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message.as_str(), "reason": self.reason, "code": u32::from(self.code)})
    }
}

/// Parses a progress report of a TrainJob.
///
/// # Errors
/// It is too large, or malformed.
pub fn read(namespace: &Text, name: &Text, body: &[u8]) -> Result<ProgressReport, ProgressError> {
    // Before parsing: the size bounds memory and time that a pod can make this server spend.
    if body.len() > BYTES_MAX {
        let message = format!("the report has more than {BYTES_MAX} bytes");
        return Err(ProgressError { code: 413, reason: TOO_LARGE, message });
    }
    let read = Tree::parse(body).ok().filter(Tree::is_map);
    let Some(read) = read else {
        return Err(ProgressError { code: 422, reason: "Invalid", message: "Invalid payload".to_owned() });
    };
    let told = read.get("trainerStatus").filter(|it| !it.is_null());
    let apply = told.map(|told| progress_apply(namespace, name, told));
    let echo = told.map_or_else(Tree::empty_map, |told| tree!({"trainerStatus": told}));
    Ok(ProgressReport { echo, apply })
}

/// The response after the apply succeeded or failed.
///
/// # Errors
/// The apply failed; the message is that of the API server.
pub fn reply(report: &ProgressReport, applied: Result<(), ApiError>) -> Result<Tree, ProgressError> {
    let Err(refusal) = applied else { return Ok(report.echo.clone()) };
    let (code, reason) = match &refusal {
        ApiError::NotFound(_) => {
            let message = "Train job not found".to_owned();
            return Err(ProgressError { code: 404, reason: "NotFound", message });
        }
        ApiError::Invalid(_) => (422, "Invalid"),
        ApiError::Forbidden(_) => (403, "Forbidden"),
        ApiError::Conflict(_) | ApiError::AlreadyExists(_) => (409, "Conflict"),
        ApiError::TooManyRequests { .. } => (503, "ServiceUnavailable"),
        ApiError::Indeterminate(_) => (500, "InternalError"),
    };
    Err(ProgressError { code, reason, message: refusal.message() })
}

/// The audience that tokens for progress reports of a TrainJob must have.
#[must_use]
pub fn audience(namespace: &str, name: &str) -> String {
    format!("trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs/{name}/status")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<ProgressReport, ProgressError> {
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
            assert_eq!(read(body), Ok(ProgressReport { echo: Tree::empty_map(), apply: None }), "{body}");
        }
    }

    #[test]
    fn paths_say_whose_report_it_is() {
        let subject = ProgressTarget { namespace: "n".into(), name: "j".into() };
        let path = format!("/apis/{}", subject.audience());
        assert_eq!(ProgressTarget::of(&path), Some(subject));
        for other in ["/apis/trainer.kubeflow.org/v1alpha1/namespaces/n/trainjobs/j", "/", "/apis/x/y"] {
            assert_eq!(ProgressTarget::of(other), None, "{other}");
            assert_eq!(ProgressTarget::of(&format!("{path}/more")), None);
        }
        assert_eq!(ProgressTarget::of(&path.replace("/n/", "//")), None, "no namespace");
    }

    #[test]
    fn accounts_report_of_their_own_namespace() {
        let subject = ProgressTarget { namespace: "n".into(), name: "j".into() };
        for (user, may) in [
            (Some("system:serviceaccount:n:default"), true),
            (Some("system:serviceaccount:other:default"), false),
            (Some("system:serviceaccount:n"), false),
            (Some("muster-admin"), false),
            (None, false),
        ] {
            assert_eq!(subject.authorize(user).is_ok(), may, "{user:?}");
        }
        assert_eq!(subject.authorize(None).unwrap_err().code, 403);
    }

    #[test]
    fn what_the_server_says_of_a_report_is_passed_on() {
        let report = read(r#"{"trainerStatus": {}}"#).unwrap();
        assert_eq!(reply(&report, Ok(())), Ok(report.echo.clone()));
        for (refusal, code, message) in [
            (ApiError::NotFound("trainjobs \"a\" not found".to_owned()), 404, "Train job not found"),
            (ApiError::Invalid("TrainJob \"a\" is invalid".to_owned()), 422, "TrainJob \"a\" is invalid"),
            (ApiError::Indeterminate("lost".to_owned()), 500, "lost"),
        ] {
            let refused = reply(&report, Err(refusal)).unwrap_err();
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
