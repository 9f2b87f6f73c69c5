//! The CRD conversion webhook: `ConversionReview` of `apiextensions.k8s.io/v1`.
//!
//! Pure: request bytes in, a review or an error message out.

use muster_install::conversion::is_convertible;
use muster_queue::kinds::convert::convert;
use muster_tree::{Tree, tree};

const API_VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "ConversionReview";

/// Answers a ConversionReview.
///
/// # Errors
/// The request is malformed; the message is for the client.
pub fn answer(bytes: &[u8]) -> Result<Tree, String> {
    let review = Tree::parse(bytes).map_err(|e| format!("the body is no JSON: {e}"))?;
    let (version, kind) = (review.str_at(&["apiVersion"]), review.str_at(&["kind"]));
    if (version, kind) != (API_VERSION, KIND) {
        return Err(format!("the body is {kind:?} of {version:?}, not {KIND} of {API_VERSION}"));
    }
    let uid = review.text_at(&["request", "uid"]);
    if uid.is_empty() {
        return Err("request.uid is missing".to_owned());
    }
    let wanted = review.str_at(&["request", "desiredAPIVersion"]);
    let objects = review.items_at(&["request", "objects"]);
    let stranger =
        objects.iter().map(|it| it.str_at(&["apiVersion"])).chain([wanted]).find(|it| !is_convertible(it));
    let response = match stranger {
        None => {
            let converted = Tree::list(objects.iter().map(|it| convert(it, wanted)));
            tree!({"uid": uid, "convertedObjects": converted, "result": {"status": "Success"}})
        }
        Some(stranger) => {
            let message = format!("muster does not convert to or from {stranger:?}");
            tree!({"uid": uid, "result": {"status": "Failure", "message": message}})
        }
    };
    Ok(tree!({"apiVersion": API_VERSION, "kind": KIND, "response": response}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(version: &str, wanted: &str) -> Tree {
        let queue = tree!({"apiVersion": version, "kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": {"cohort": "c"}});
        let request = tree!({"uid": "u", "desiredAPIVersion": wanted, "objects": [queue]});
        let review = tree!({"apiVersion": API_VERSION, "kind": KIND, "request": request});
        answer(&review.to_json_bytes()).unwrap().get("response").cloned().unwrap()
    }

    #[test]
    fn objects_are_converted_to_the_desired_version() {
        let told = asked("kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2");
        assert_eq!((told.str_at(&["uid"]), told.str_at(&["result", "status"])), ("u", "Success"));
        let queue = &told.items_at(&["convertedObjects"])[0];
        assert_eq!(queue.str_at(&["apiVersion"]), "kueue.x-k8s.io/v1beta2");
        assert_eq!((queue.str_at(&["spec", "cohortName"]), queue.at(&["spec", "cohort"])), ("c", None));
    }

    #[test]
    fn other_groups_are_rejected() {
        for (from, to) in [("kueue.x-k8s.io/v1beta1", "v1"), ("other/v1", "kueue.x-k8s.io/v1beta2")] {
            let told = asked(from, to);
            assert_eq!(told.str_at(&["result", "status"]), "Failure", "{from} to {to}");
            assert_eq!(told.at(&["convertedObjects"]), None);
        }
        assert!(answer(b"{").unwrap_err().contains("no JSON"));
        assert!(answer(b"{}").unwrap_err().contains("not ConversionReview"));
    }
}
