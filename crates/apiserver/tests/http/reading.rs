//! Reads: representations, discovery, health, metrics.

use std::io::Read;

use super::harness::TestServer;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn an_object_is_created_read_updated_and_deleted() {
    let world = TestServer::new();
    let made = world.json("POST", CONFIGMAPS, r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#);
    assert_eq!((made.code, made.header("content-type")), (201, "application/json"));
    assert_eq!(made.header("cache-control"), "no-cache, private");
    let path = format!("{CONFIGMAPS}/a");
    let first = world.get(&path).tree();
    assert_eq!(first, made.tree());
    let merge = [("Content-Type", "application/merge-patch+json")];
    let patched = world.call("PATCH", &path, &merge, br#"{"data":{"k":"w"}}"#);
    assert_eq!((patched.code, patched.tree().str_at(&["data", "k"])), (200, "w"));
    let stale = world.json("PUT", &path, &first.to_json());
    stale.assert_refused("a stale resourceVersion", 409, "Conflict", "the object has been modified");
    let gone = world.call("DELETE", &path, &[], b"");
    assert_eq!((gone.code, gone.tree().str_at(&["status"])), (200, "Success"));
    assert_eq!(world.get(&path).code, 404);
}

#[test]
fn representations_of_a_list() {
    let world = TestServer::new();
    for name in ["a", "b"] {
        world.json("POST", CONFIGMAPS, &format!(r#"{{"metadata":{{"name":"{name}"}}}}"#));
    }
    let whole = world.get(&format!("{CONFIGMAPS}?labelSelector=!x")).tree();
    assert_eq!((whole.str_at(&["kind"]), whole.str_at(&["apiVersion"])), ("ConfigMapList", "v1"));
    assert!(whole.items_at(&["items"]).iter().all(|item| item.get("kind").is_none()));
    let form = |accept: &str| world.call("GET", CONFIGMAPS, &[("Accept", accept)], b"");
    let table = form("application/json;as=Table;v=v1;g=meta.k8s.io,application/json").tree();
    assert_eq!(table.str_at(&["kind"]), "Table");
    assert_eq!(table.items_at(&["rows"]).len(), whole.items_at(&["items"]).len());
    let metadata = form("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").tree();
    assert_eq!(metadata.str_at(&["kind"]), "PartialObjectMetadataList");
    assert!(metadata.items_at(&["items"]).iter().all(|item| item.get("data").is_none()));
    let yaml = form("application/yaml");
    assert_eq!(yaml.header("content-type"), "application/yaml");
    assert!(yaml.text().contains("kind: ConfigMapList"), "{}", yaml.text());
    let page = world.get(&format!("{CONFIGMAPS}?limit=1")).tree();
    assert_eq!(page.items_at(&["items"]).len(), 1);
    assert!(!page.str_at(&["metadata", "continue"]).is_empty());
}

#[test]
fn long_lists_are_streamed_and_compressed() {
    let world = TestServer::new();
    let filler = "x".repeat(10_000);
    for n in 0..40 {
        let body = format!(r#"{{"metadata":{{"name":"c{n:02}"}},"data":{{"k":"{filler}"}}}}"#);
        assert_eq!(world.json("POST", CONFIGMAPS, &body).code, 201);
    }
    let plain = world.get(CONFIGMAPS);
    assert_eq!(plain.header("transfer-encoding"), "chunked");
    assert!(plain.tree().items_at(&["items"]).len() >= 40);
    let short = world.call("GET", &format!("{CONFIGMAPS}?limit=1"), &[("Accept-Encoding", "gzip")], b"");
    assert_eq!(short.header("content-encoding"), "");
    let packed = world.call("GET", CONFIGMAPS, &[("Accept-Encoding", "gzip")], b"");
    assert_eq!(packed.header("content-encoding"), "gzip");
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
}

#[test]
fn a_future_resource_version_times_out() {
    let world = TestServer::new();
    let answer = world.get(&format!("{CONFIGMAPS}?resourceVersion=99999999"));
    answer.assert_refused("far away", 504, "Timeout", "Too large resource version: 99999999, current: ");
    let tree = answer.tree();
    assert_eq!(tree.items_at(&["details", "causes"])[0].str_at(&["reason"]), "ResourceVersionTooLarge");
    assert_eq!(answer.header("retry-after"), "1");
}

#[test]
fn discovery_has_an_etag() {
    let world = TestServer::new();
    let accept = ("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    let first = world.call("GET", "/apis", &[accept], b"");
    assert_eq!(
        first.header("content-type"),
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    assert_eq!(first.tree().str_at(&["kind"]), "APIGroupDiscoveryList");
    let tag = first.header("etag").to_owned();
    let again = world.call("GET", "/apis", &[accept, ("If-None-Match", &tag)], b"");
    assert_eq!((again.code, again.body.len()), (304, 0));
    assert_eq!(world.get("/api").tree().str_at(&["kind"]), "APIVersions");
    assert_eq!(world.get("/apis").tree().str_at(&["kind"]), "APIGroupList");
    assert_eq!(world.get("/apis/batch").tree().str_at(&["kind"]), "APIGroup");
    assert_eq!(world.get("/api/v1").tree().str_at(&["kind"]), "APIResourceList");
}

#[test]
fn openapi_is_cached_by_its_hash() {
    let world = TestServer::new();
    let index = world.get("/openapi/v3").tree();
    let url = index.str_at(&["paths", "apis/batch/v1", "serverRelativeURL"]).to_owned();
    let document = world.get(&url);
    assert_eq!(document.header("cache-control"), "public, immutable");
    assert_eq!(document.tree().str_at(&["openapi"]), "3.0.0");
    let packed = world.call("GET", &url, &[("Accept-Encoding", "gzip")], b"");
    assert_eq!(packed.header("content-encoding"), "gzip");
}

#[test]
fn readyz_waits_for_all_checks() {
    let world = TestServer::new();
    assert_eq!(world.get("/livez").code, 200);
    assert_eq!(world.get("/readyz").code, 500);
    world.ready.pass();
    assert_eq!(world.get("/readyz").text(), "ok");
    assert_eq!(world.get("/readyz?verbose").text(), "[+]ping ok\n[+]controllers ok\nreadyz check passed\n");
    world.ready.fail();
    for path in ["/livez", "/livez/controllers", "/healthz", "/readyz", "/readyz/controllers"] {
        assert_eq!(world.get(path).code, 500, "{path} after a crash");
    }
    assert_eq!(world.get("/livez/ping").code, 200, "the server itself still answers");
}

#[test]
fn metrics_count_requests_and_objects() {
    let world = TestServer::new();
    world.json("POST", CONFIGMAPS, r#"{"metadata":{"name":"a"}}"#);
    let text = world.get("/metrics").text().to_owned();
    let counted = r#"apiserver_request_total{verb="create",group="",resource="configmaps",code="201"} 1"#;
    assert!(text.contains(counted), "{text}");
    assert!(text.contains("apiserver_storage_objects{resource=\"configmaps\"}"), "{text}");
    assert!(text.contains("muster_store_revision"), "{text}");
    let (secrets, stored) = (CONFIGMAPS.replace("configmaps", "secrets"), "{resource=\"secrets\"}");
    world.json("POST", &secrets, r#"{"metadata":{"name":"a"}}"#);
    let text = world.get("/metrics").text().to_owned();
    assert!(text.contains(&format!("apiserver_storage_objects{stored} 1")), "{text}");
    world.call("DELETE", &format!("{secrets}/a"), &[], b"");
    let text = world.get("/metrics").text().to_owned();
    assert!(!text.contains(&format!("apiserver_storage_objects{stored}")), "the last one is gone: {text}");
}
