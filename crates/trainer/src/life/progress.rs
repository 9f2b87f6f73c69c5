//! What training tells of itself: how a report is read, and what is written of it.
//!
//! # Deliberately absent
//!
//! Who may report, and whether there is such a TrainJob: the server asks and answers that.

use muster_api::train::progress_body;
use muster_tree::{Text, Tree, tree};

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
        return Err(Refused { code: 413, reason: "RequestEntityTooLarge", message });
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
