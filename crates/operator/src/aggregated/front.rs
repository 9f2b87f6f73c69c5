//! Who stands behind a request that an API server hands on, by what it publishes about itself. Pure.

use std::collections::BTreeMap;

use http::HeaderMap;
use muster_api::time::Time;
use muster_apiserver::http::certificate::vouched;
use muster_apiserver::http::info::decode_percent;
use muster_apiserver::request::User;
use muster_tree::{Text, Tree};

/// What an API server is known by, and how it names whoever asked it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontProxy {
    /// Who vouches for it, PEM.
    authorities: String,
    /// What it is called; anything when there are none.
    names: Vec<String>,
    users: Vec<String>,
    uids: Vec<String>,
    groups: Vec<String>,
    /// How the headers begin that tell what else is known.
    extras: Vec<String>,
}

impl FrontProxy {
    /// As a server publishes it in a ConfigMap.
    ///
    /// # Errors
    /// It does not, in words.
    pub fn of(published: Option<&Tree>) -> Result<FrontProxy, String> {
        let published = published.ok_or("the API server does not publish how it asks others")?;
        let said = |key: &str| published.at(&["data"]).and_then(|it| it.get(key)).and_then(Tree::as_str);
        let list = |key: &str| said(key).map(words).unwrap_or_default();
        let lower = |key: &str| list(key).iter().map(|it| it.to_lowercase()).collect();
        let it = FrontProxy {
            authorities: said("requestheader-client-ca-file").unwrap_or_default().to_owned(),
            names: list("requestheader-allowed-names"),
            users: lower("requestheader-username-headers"),
            uids: lower("requestheader-uid-headers"),
            groups: lower("requestheader-group-headers"),
            extras: lower("requestheader-extra-headers-prefix"),
        };
        if it.authorities.trim().is_empty() || it.users.is_empty() {
            return Err("the API server runs without `--requestheader-client-ca-file`".to_owned());
        }
        Ok(it)
    }

    /// Whom these headers name, if the server itself sent them: it has shown one of its certificates (DER, with those
    /// between).
    pub fn user(&self, shown: &[Vec<u8>], headers: &HeaderMap, now: Time) -> Option<User> {
        let name = vouched(shown, &self.authorities, now)?;
        if !self.names.is_empty() && !self.names.iter().any(|it| *it == name) {
            return None;
        }
        let all = |names: &[String]| -> Vec<Text> {
            let values = names.iter().flat_map(|name| headers.get_all(name.as_str()));
            values.filter_map(|it| it.to_str().ok()).filter(|it| !it.is_empty()).map(Text::from).collect()
        };
        let mut extra: BTreeMap<Text, Vec<Text>> = BTreeMap::new();
        for (name, value) in headers {
            let key = self.extras.iter().find_map(|prefix| name.as_str().strip_prefix(prefix.as_str()));
            let key = key.and_then(|it| decode_percent(it, false)).filter(|it| !it.is_empty());
            if let (Some(key), Ok(value)) = (key, value.to_str()) {
                extra.entry(key.to_lowercase().into()).or_default().push(value.into());
            }
        }
        let uid = all(&self.uids).into_iter().next().unwrap_or_default();
        Some(User { name: all(&self.users).into_iter().next()?, uid, groups: all(&self.groups), extra })
    }
}

/// A list of words as JSON.
fn words(text: &str) -> Vec<String> {
    let list = Tree::parse(text.as_bytes()).unwrap_or_default();
    list.items().iter().filter_map(Tree::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use http::{HeaderName, HeaderValue};
    use muster_api::ports::Clock;
    use muster_apiserver::http::authority::{Authority, Certified};
    use muster_tree::tree;

    use super::*;
    use crate::ports::SystemClock;

    fn der(of: &Certified) -> Vec<u8> {
        let text: String = of.certificate.lines().filter(|it| !it.starts_with("-----")).collect();
        BASE64_STANDARD.decode(text).unwrap()
    }

    fn published(authority: &str) -> Tree {
        tree!({"data": {
            "requestheader-client-ca-file": authority,
            "requestheader-allowed-names": r#"["front-proxy-client"]"#,
            "requestheader-username-headers": r#"["X-Remote-User"]"#,
            "requestheader-uid-headers": r#"["X-Remote-Uid"]"#,
            "requestheader-group-headers": r#"["X-Remote-Group"]"#,
            "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
        }})
    }

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        all.iter().map(pair).collect()
    }

    #[test]
    fn only_the_server_itself_names_others() {
        let authority = Authority::passing("front", &SystemClock).unwrap();
        let other = Authority::passing("front", &SystemClock).unwrap();
        let front = FrontProxy::of(Some(&published(authority.certificate()))).unwrap();
        let asks = headers(&[("x-remote-user", "ann")]);
        let of = |by: &Authority, name: &str| vec![der(&by.client(name, "g").unwrap())];
        for (says, shown, headers, want) in [
            ("the server", of(&authority, "front-proxy-client"), &asks, true),
            ("it names nobody", of(&authority, "front-proxy-client"), &HeaderMap::new(), false),
            ("another of the same authority", of(&authority, "kubelet"), &asks, false),
            ("the same name from another authority", of(&other, "front-proxy-client"), &asks, false),
            ("somebody without a certificate", Vec::new(), &asks, false),
        ] {
            let user = front.user(&shown, headers, SystemClock.now());
            assert_eq!(user.map(|it| it.name.to_string()), want.then(|| "ann".to_owned()), "{says}");
        }
    }

    #[test]
    fn all_that_is_known_of_somebody_is_taken_over() {
        let authority = Authority::passing("front", &SystemClock).unwrap();
        let front = FrontProxy::of(Some(&published(authority.certificate()))).unwrap();
        let shown = vec![der(&authority.client("front-proxy-client", "g").unwrap())];
        let told = headers(&[
            ("x-remote-user", "ann"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-extra-example.org%2fscope", "s"),
            ("x-other", "no"),
        ]);
        let user = front.user(&shown, &told, SystemClock.now()).unwrap();
        assert_eq!((user.uid.as_str(), user.groups), ("7", vec!["a".into(), "b".into()]));
        assert_eq!(user.extra, BTreeMap::from([("example.org/scope".into(), vec!["s".into()])]));
    }

    #[test]
    fn servers_that_hand_nothing_on_are_told() {
        assert!(FrontProxy::of(None).unwrap_err().contains("does not publish"));
        let bare = tree!({"data": {"client-ca-file": "x"}});
        assert!(FrontProxy::of(Some(&bare)).unwrap_err().contains("--requestheader-client-ca-file"));
    }
}
