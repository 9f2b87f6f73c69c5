//! Objects that are read together, once.

use kube::Client;
use muster_api::kinds::EVENTS;
use muster_api::port::{Kind, Object, Refusal};
use muster_tree::Tree;

use crate::{in_full, request};

/// Objects in one answer; the rest is asked for with the next.
const PAGE: &str = "500";

/// The objects of a namespace that have all of these labels.
///
/// # Errors
/// The server does not tell.
pub async fn labelled(
    client: &Client,
    kind: &Kind,
    namespace: &str,
    labels: &[(&str, &str)],
) -> Result<Vec<Object>, Refusal> {
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let page = page(client, &address(kind, namespace, labels, &next)).await?;
        all.extend(page.items_at(&["items"]).iter().map(Object::of_wire));
        page.str_at(&["metadata", "continue"]).clone_into(&mut next);
        if next.is_empty() {
            return Ok(all);
        }
    }
}

/// The events of a namespace that are about the object of this UID.
///
/// # Errors
/// The server does not tell.
pub async fn events_of(client: &Client, namespace: &str, uid: &str) -> Result<Vec<Object>, Refusal> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", PAGE).append_pair("fieldSelector", &format!("involvedObject.uid={uid}"));
    let address = format!("{}?{}", request::root(&EVENTS, namespace), query.finish());
    let page = page(client, &address).await?;
    Ok(page.items_at(&["items"]).iter().map(Object::of_wire).collect())
}

async fn page(client: &Client, address: &str) -> Result<Tree, Refusal> {
    let request = http::Request::get(address).body(Vec::new());
    let request = request.map_err(|e| Refusal::Invalid(format!("{address} is no address: {e}")))?;
    let text = client.request_text(request).await.map_err(refusal)?;
    Tree::parse(text.as_bytes()).map_err(|e| Refusal::Unknown(format!("the answer cannot be read: {e}")))
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
    format!("{}?{}", request::root(kind, namespace), query.finish())
}

fn refusal(error: kube::Error) -> Refusal {
    match error {
        kube::Error::Api(status) => Refusal::of(status.code, &status.reason, status.message.clone(), None),
        other => Refusal::Unknown(in_full(&other)),
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
