//! The definition in the tree equals the one that the program prints.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::path::Path;

const FILE: &str = "../../deploy/kubernetes/controller/nodepools.json";

#[test]
fn the_file_is_what_the_program_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let is = millpond_controller::definition().unwrap();
    if std::env::var_os("MILLPOND_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, &is).unwrap();
    }
    let stands = std::fs::read_to_string(&path).unwrap();
    assert!(stands == is, "{FILE} is older than the resource: run this test with MILLPOND_WRITE_REFERENCE=1");
}

/// The tag `latest` without a policy is pulled at each start: a node with the image would query the public registry,
/// which does not have it.
#[test]
fn a_node_that_has_an_image_does_not_pull_it() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes");
    let mut images = 0;
    for file in ["node/daemonset.yaml", "controller/controller.yaml"] {
        let text = std::fs::read_to_string(dir.join(file)).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for pair in lines.windows(2).filter(|pair| pair[0].starts_with("image: ")) {
            assert_eq!(pair[1], "imagePullPolicy: IfNotPresent", "{file}: {}", pair[0]);
            images += 1;
        }
    }
    assert_eq!(images, 4);
}

/// The API server refuses a schema that is not structural, and counts the costs of its rules: every list and text of a rule has a limit.
#[test]
fn rules_and_limits_stand_in_the_schema() {
    let definition: Value = serde_json::from_str(&millpond_controller::definition().unwrap()).unwrap();
    let version = &definition["spec"]["versions"][0];
    let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let pool = &spec["pools"]["items"];
    assert_eq!(spec["pools"]["maxItems"], 64);
    assert_eq!(spec["pools"]["x-kubernetes-list-map-keys"][0], "name");
    assert_eq!(pool["properties"]["min"]["default"], 1);
    assert_eq!(pool["properties"]["max"]["default"], 65_536);
    assert_eq!(pool["x-kubernetes-validations"][0]["rule"], "self.min <= self.max");
    assert_eq!(spec["fences"]["maxItems"], 16);
    let columns: Vec<&str> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(columns, ["Nodes", "Ready", "Sizes", "Age"]);
    assert_eq!(version["subresources"]["status"], serde_json::json!({}));
    assert_eq!(definition["spec"]["scope"], "Cluster");
}
