//! Objects that are read together, once.

use kube::Client;
use muster_api::port::{Kind, Object, Refusal};
use muster_tree::Tree;

use crate::{in_full, request};

/// The objects of a namespace that have this label.
///
/// # Errors
/// The server does not tell.
pub async fn labelled(
    client: &Client,
    kind: &Kind,
    namespace: &str,
    label: &str,
    value: &str,
) -> Result<Vec<Object>, Refusal> {
    let address = address(kind, namespace, label, value);
    let request = http::Request::get(&address).body(Vec::new());
    let request = request.map_err(|e| Refusal::Invalid(format!("{address} is no address: {e}")))?;
    let text = client.request_text(request).await.map_err(refusal)?;
    let list = Tree::parse(text.as_bytes())
        .map_err(|e| Refusal::Unknown(format!("the answer cannot be read: {e}")))?;
    Ok(list.items_at(&["items"]).iter().map(Object::of_wire).collect())
}

fn address(kind: &Kind, namespace: &str, label: &str, value: &str) -> String {
    let selector = format!("{label}={value}");
    let query =
        form_urlencoded::Serializer::new(String::new()).append_pair("labelSelector", &selector).finish();
    format!("{}?{query}", request::root(kind, namespace))
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
        let root = "/api/v1/namespaces/n/pods?labelSelector=";
        for (label, value, want) in
            [("a.b/c", "d-1", "a.b%2Fc%3Dd-1"), ("a", "b&watch=true", "a%3Db%26watch%3Dtrue")]
        {
            assert_eq!(address(&kinds::PODS, "n", label, value), format!("{root}{want}"));
        }
    }
}
