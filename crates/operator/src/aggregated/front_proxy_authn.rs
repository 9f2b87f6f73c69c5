//! Requestheader authentication: reads the user of a request that an API server proxies, by the configuration that it
//! publishes in `extension-apiserver-authentication`. Pure.

use std::collections::BTreeMap;

use http::HeaderMap;
use muster_api::time::Time;
use muster_apiserver::http::certificate::verify_client_chain;
use muster_apiserver::http::request_info::decode_percent;
use muster_apiserver::request::UserInfo;
use muster_tree::{Text, Tree};

/// The front proxy's client CA, its allowed names, and the headers that carry the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontProxyAuthenticator {
    /// The client CA bundle, PEM.
    client_ca: String,
    /// Allowed common names; any name when empty.
    names: Vec<String>,
    users: Vec<String>,
    uids: Vec<String>,
    groups: Vec<String>,
    /// Header prefixes of the user's extra fields.
    extras: Vec<String>,
}

impl FrontProxyAuthenticator {
    /// Parses the ConfigMap that an API server publishes.
    ///
    /// # Errors
    /// The ConfigMap is absent or has no requestheader configuration.
    pub fn of(published: Option<&Tree>) -> Result<FrontProxyAuthenticator, String> {
        let published = published.ok_or("the API server does not publish its requestheader configuration")?;
        let said = |key: &str| published.at(&["data"]).and_then(|it| it.get(key)).and_then(Tree::as_str);
        let list = |key: &str| said(key).map(json_strings).unwrap_or_default();
        let lower = |key: &str| list(key).iter().map(|it| it.to_lowercase()).collect();
        let it = FrontProxyAuthenticator {
            client_ca: said("requestheader-client-ca-file").unwrap_or_default().to_owned(),
            names: list("requestheader-allowed-names"),
            users: lower("requestheader-username-headers"),
            uids: lower("requestheader-uid-headers"),
            groups: lower("requestheader-group-headers"),
            extras: lower("requestheader-extra-headers-prefix"),
        };
        if it.client_ca.trim().is_empty() || it.users.is_empty() {
            return Err("the API server runs without `--requestheader-client-ca-file`".to_owned());
        }
        Ok(it)
    }

    /// The user in these headers, if the client presented a front-proxy certificate (a DER chain). Headers of any other client
    /// are ignored: everyone could set them.
    pub fn authenticate(&self, shown: &[Vec<u8>], headers: &HeaderMap, now: Time) -> Option<UserInfo> {
        let name = verify_client_chain(shown, &self.client_ca, now)?;
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
        Some(UserInfo { name: all(&self.users).into_iter().next()?, uid, groups: all(&self.groups), extra })
    }
}

/// Parses a JSON list of strings.
fn json_strings(text: &str) -> Vec<String> {
    let list = Tree::parse(text.as_bytes()).unwrap_or_default();
    list.items().iter().filter_map(Tree::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use http::{HeaderName, HeaderValue};
    use muster_api::environment::Clock;
    use muster_apiserver::http::certificate_authority::{CertKeyPair, CertificateAuthority};
    use muster_tree::tree;

    use super::*;
    use crate::ports::SystemClock;

    fn der(of: &CertKeyPair) -> Vec<u8> {
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
    fn only_the_front_proxy_may_name_users() {
        let authority = CertificateAuthority::generate_default("front", &SystemClock).unwrap();
        let other = CertificateAuthority::generate_default("front", &SystemClock).unwrap();
        let front = FrontProxyAuthenticator::of(Some(&published(authority.certificate()))).unwrap();
        let asks = headers(&[("x-remote-user", "ann")]);
        let of = |by: &CertificateAuthority, name: &str| vec![der(&by.issue_client_cert(name, "g").unwrap())];
        for (says, shown, headers, want) in [
            ("the server", of(&authority, "front-proxy-client"), &asks, true),
            ("no user header", of(&authority, "front-proxy-client"), &HeaderMap::new(), false),
            ("another client of the same CA", of(&authority, "kubelet"), &asks, false),
            ("the same name from another CA", of(&other, "front-proxy-client"), &asks, false),
            ("a client without a certificate", Vec::new(), &asks, false),
        ] {
            let user = front.authenticate(&shown, headers, SystemClock.now());
            assert_eq!(user.map(|it| it.name.to_string()), want.then(|| "ann".to_owned()), "{says}");
        }
    }

    #[test]
    fn uid_groups_and_extra_of_the_user_are_read() {
        let authority = CertificateAuthority::generate_default("front", &SystemClock).unwrap();
        let front = FrontProxyAuthenticator::of(Some(&published(authority.certificate()))).unwrap();
        let shown = vec![der(&authority.issue_client_cert("front-proxy-client", "g").unwrap())];
        let told = headers(&[
            ("x-remote-user", "ann"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-extra-example.org%2fscope", "s"),
            ("x-other", "no"),
        ]);
        let user = front.authenticate(&shown, &told, SystemClock.now()).unwrap();
        assert_eq!((user.uid.as_str(), user.groups), ("7", vec!["a".into(), "b".into()]));
        assert_eq!(user.extra, BTreeMap::from([("example.org/scope".into(), vec!["s".into()])]));
    }

    #[test]
    fn a_server_without_requestheader_configuration_is_an_error() {
        assert!(
            FrontProxyAuthenticator::of(None).unwrap_err().contains("does not publish its requestheader")
        );
        let bare = tree!({"data": {"client-ca-file": "x"}});
        assert!(
            FrontProxyAuthenticator::of(Some(&bare)).unwrap_err().contains("--requestheader-client-ca-file")
        );
    }
}
