//! Authentication, and the accepted host names.

use muster_apiserver::http::limits::RequestLimits;

use super::harness::TestServer;

#[test]
fn anonymous_requests_get_health_and_version_only() {
    let world = TestServer::new();
    for path in ["/version", "/healthz", "/livez", "/livez/ping"] {
        assert_eq!(world.send(world.connect(false), "GET", path, &[], b"").code, 200, "{path}");
    }
    for path in ["/api/v1/pods", "/api", "/apis", "/openapi/v3", "/metrics", "/", "/nosuch"] {
        let answer = world.send(world.connect(false), "GET", path, &[], b"");
        answer.assert_refused(path, 401, "Unauthorized", "Unauthorized");
    }
    for header in ["Bearer wrong", "Bearer ", "Basic YTpi", "Bearer a.b.c"] {
        for path in ["/api/v1/pods", "/version"] {
            let headers = [("Authorization", header)];
            let answer = world.send(world.connect(false), "GET", path, &headers, b"");
            answer.assert_refused(header, 401, "Unauthorized", "Unauthorized");
        }
    }
}

fn who_am_i(answer: &super::harness::TestResponse) -> (String, Vec<String>) {
    let tree = answer.tree();
    let groups = tree.items_at(&["status", "userInfo", "groups"]);
    let groups = groups.iter().filter_map(|g| g.as_str().map(str::to_owned)).collect();
    (tree.str_at(&["status", "userInfo", "username"]).to_owned(), groups)
}

const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[test]
fn the_admin_authenticates_by_certificate_or_token() {
    let world = TestServer::new();
    let want =
        ("muster-admin".to_owned(), vec!["system:masters".to_owned(), "system:authenticated".to_owned()]);
    assert_eq!(who_am_i(&world.json("POST", SELF, "{}")), want);
    let headers = [("Content-Type", "application/json")];
    assert_eq!(who_am_i(&world.send(world.connect(true), "POST", SELF, &headers, b"{}")), want);
}

#[test]
fn a_service_account_token_ends_with_its_account() {
    let world = TestServer::new();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(world.json("POST", accounts, r#"{"metadata":{"name":"robot"}}"#).code, 201);
    let request = r#"{"spec":{"expirationSeconds":3600}}"#;
    let answer = world.json("POST", &format!("{accounts}/robot/token"), request);
    assert_eq!(answer.code, 201, "{}", answer.text());
    let token = answer.tree().str_at(&["status", "token"]).to_owned();
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let (name, groups) = who_am_i(&world.send(world.connect(false), "POST", SELF, &headers, b"{}"));
    assert_eq!(name, "system:serviceaccount:default:robot");
    assert!(groups.contains(&"system:serviceaccounts:default".to_owned()), "{groups:?}");

    let review = format!(r#"{{"spec":{{"token":"{token}"}}}}"#);
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let judged = world.json("POST", reviews, &review).tree();
    assert_eq!(judged.bool_at(&["status", "authenticated"]), Some(true), "{judged}");

    assert_eq!(world.call("DELETE", &format!("{accounts}/robot"), &[], b"").code, 200);
    let answer = world.send(world.connect(false), "GET", "/api/v1/pods", &headers[..1], b"");
    answer.assert_refused("the account is gone", 401, "Unauthorized", "Unauthorized");
}

#[test]
fn on_loopback_foreign_host_names_are_rejected() {
    let world = TestServer::new();
    for host in ["localhost", "localhost:1234", "127.0.0.1", "[::1]:6443", "kubernetes.default.svc"] {
        assert_eq!(world.call("GET", "/version", &[("Host", host)], b"").code, 200, "{host}");
    }
    for host in ["evil.example", "evil.example:6443", "127.0.0.1.evil.example", ""] {
        let answer = world.call("GET", "/version", &[("Host", host)], b"");
        answer.assert_refused(host, 403, "Forbidden", "is not served here");
    }
}

#[test]
fn requests_beyond_the_limit_get_retry_after() {
    let world = TestServer::bounded(RequestLimits { writes: 0, watches: 0, ..RequestLimits::default() });
    let write = world.json("POST", "/api/v1/namespaces", r#"{"metadata":{"name":"a"}}"#);
    write.assert_refused("a write", 429, "TooManyRequests", "try again later");
    assert_eq!(write.header("retry-after"), "1");
    let watch = world.get("/api/v1/namespaces?watch=1");
    watch.assert_refused("a watch", 429, "TooManyRequests", "try again later");
    assert_eq!(world.get("/api/v1/namespaces").code, 200, "reads have places of their own");
}

#[test]
fn every_response_has_an_audit_id() {
    let world = TestServer::new();
    assert_eq!(world.get("/version").header("audit-id").len(), 36);
    assert_eq!(world.call("GET", "/version", &[("Audit-Id", "mine")], b"").header("audit-id"), "mine");
}
