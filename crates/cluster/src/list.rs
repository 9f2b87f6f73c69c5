//! One-off lists.

use kube::Client;
use muster_api::client::{ApiError, ApiObject, Kind};
use muster_api::kinds::EVENTS;
use muster_tree::Tree;

use crate::{error_chain, request};

/// Objects per page; further pages are requested with `continue`.
const PAGE: &str = "500";

/// Lists the objects of a namespace that have all of these labels.
///
/// # Errors
/// The list failed.
pub async fn labelled(
    client: &Client,
    kind: &Kind,
    namespace: &str,
    labels: &[(&str, &str)],
) -> Result<Vec<ApiObject>, ApiError> {
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let page = page(client, &address(kind, namespace, labels, &next)).await?;
        all.extend(page.items_at(&["items"]).iter().map(ApiObject::from_wire));
        page.str_at(&["metadata", "continue"]).clone_into(&mut next);
        if next.is_empty() {
            return Ok(all);
        }
    }
}

/// Lists the Events of a namespace about the object of this UID.
///
/// # Errors
/// The list failed.
pub async fn events_of(client: &Client, namespace: &str, uid: &str) -> Result<Vec<ApiObject>, ApiError> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", PAGE).append_pair("fieldSelector", &format!("involvedObject.uid={uid}"));
    let address = format!("{}?{}", request::collection_path(&EVENTS, namespace), query.finish());
    let page = page(client, &address).await?;
    Ok(page.items_at(&["items"]).iter().map(ApiObject::from_wire).collect())
}

async fn page(client: &Client, address: &str) -> Result<Tree, ApiError> {
    let request = http::Request::get(address).body(Vec::new());
    let request = request.map_err(|e| ApiError::Invalid(format!("{address} is no address: {e}")))?;
    let text = client.request_text(request).await.map_err(error_from_status)?;
    Tree::parse(text.as_bytes())
        .map_err(|e| ApiError::Indeterminate(format!("the answer cannot be read: {e}")))
}

fn address(kind: &Kind, namespace: &str, labels: &[(&str, &str)], next: &str) -> String {
    let selector: Vec<String> = labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", PAGE);
    if !selector.is_empty() {
        query.append_pair("labelSelector", &selector.join(","));
    }
    if !next.is_empty() {
        query.append_pair("continue", next);
    }
    format!("{}?{}", request::collection_path(kind, namespace), query.finish())
}

fn error_from_status(error: kube::Error) -> ApiError {
    match error {
        kube::Error::Api(status) => {
            ApiError::from_status(status.code, &status.reason, status.message.clone(), None)
        }
        other => ApiError::Indeterminate(error_chain(&other)),
    }
}

#[cfg(test)]
mod tests {
    use muster_api::kinds;

    use super::*;

    #[test]
    fn what_is_asked_for() {
        let root = "/api/v1/namespaces/n/pods?limit=500";
        for (labels, next, want) in [
            (&[][..], "", ""),
            (&[("a.b/c", "d-1")], "", "&labelSelector=a.b%2Fc%3Dd-1"),
            (&[("a", "b&watch=true")], "", "&labelSelector=a%3Db%26watch%3Dtrue"),
            (&[("a", "b"), ("c", "0")], "", "&labelSelector=a%3Db%2Cc%3D0"),
            (&[], "x=&y", "&continue=x%3D%26y"),
        ] {
            assert_eq!(address(&kinds::PODS, "n", labels, next), format!("{root}{want}"));
        }
    }
}
