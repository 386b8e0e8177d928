//! The examples in the description of all routes have the fields of real responses.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::common::{COLUMNS, Service, json_rows, rows};
use crate::page_data::score;

/// Asserts that two values have the same types, that their objects have the same fields, and that the same is true for the first elements
/// of their lists. An empty list in an example agrees with every list.
fn assert_same_fields(example: &Value, real: &Value, at: &str) {
    match (example, real) {
        (Value::Object(example), Value::Object(real)) => {
            let names =
                |fields: &serde_json::Map<String, Value>| fields.keys().cloned().collect::<BTreeSet<_>>();
            assert_eq!(names(example), names(real), "fields of {at} in the example and in the response");
            example
                .iter()
                .for_each(|(name, value)| assert_same_fields(value, &real[name], &format!("{at}.{name}")));
        }
        (Value::Array(example), Value::Array(real)) => {
            if let Some(first) = example.first() {
                assert!(!real.is_empty(), "{at} is empty in the response");
                assert_same_fields(first, &real[0], &format!("{at}[0]"));
            }
        }
        _ => assert_eq!(
            std::mem::discriminant(example),
            std::mem::discriminant(real),
            "the type of {at}: {example} in the example, {real} in the response"
        ),
    }
}

#[test]
fn examples_have_the_fields_of_responses() {
    let service = Service::with(|config| config.ephemeral = true);
    let description = service.get("/openapi.json").json();
    let example = |method: &str, route: &str| {
        let pointer = "/responses/200/content/application~1json/example";
        description["paths"][route][method].pointer(pointer).cloned()
    };
    let mut checked = BTreeSet::new();
    let mut check = |method: &str, route: &str, body: Value| {
        let path = route
            .replace("{model}", "animals")
            .replace("{version}", "1")
            .replace("{id}", "0")
            .replace("{change}", "1");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = service.request(&method.to_uppercase(), &path, &[], body.as_bytes());
        assert_eq!(reply.status, 200, "{method} {path}: {}", reply.text());
        let example = example(method, route).unwrap_or_else(|| panic!("{method} {route} has no example"));
        assert_same_fields(&example, &reply.json(), &format!("{method} {route}"));
        checked.insert((method.to_owned(), route.to_owned()));
        (example, reply.json())
    };

    // The row of most examples is accepted. It is row 0 of the recent rows.
    let row = rows(1, 9);
    score(&service, "animals", &row);
    let body: Value = serde_json::from_str(&json_rows(&row)).unwrap();
    let tensors = json!({
        "inputs": [{ "name": "embeddings", "shape": [1, COLUMNS], "datatype": "FP32", "data": row }],
        "outputs": [{ "name": "label" }, { "name": "total" }],
    });
    let (example_rows, inspected) = check("post", "/v1/models/{model}/inspect", body.clone());
    assert_eq!(example_rows["rows"][0]["id"], inspected["rows"][0]["id"]);
    for (method, route, body) in [
        ("get", "/v2", Value::Null),
        ("get", "/v2/health/live", Value::Null),
        ("get", "/v2/health/ready", Value::Null),
        ("post", "/v2/models/{model}/infer", tensors.clone()),
        ("post", "/v2/models/{model}/versions/{version}/infer", tensors),
        ("get", "/v1/models", Value::Null),
        ("get", "/v1/models/{model}", Value::Null),
        ("post", "/v1/models/{model}/score", body.clone()),
        ("get", "/v1/models/{model}/activity", Value::Null),
        ("get", "/v1/models/{model}/distribution", Value::Null),
        ("get", "/v1/models/{model}/drift", Value::Null),
        ("get", "/v1/models/{model}/recent", Value::Null),
        ("get", "/v1/models/{model}/recent/{id}", Value::Null),
        ("get", "/v1/models/{model}/map", Value::Null),
        ("post", "/v1/models/{model}/suggest", body),
        ("post", "/v1/models/{model}/reload", Value::Null),
    ] {
        check(method, route, body);
    }

    // Rows far from all training rows are rejected, and raise an alarm.
    let far: Vec<f32> = (0..100 * COLUMNS).map(|i| 100.0 + i as f32).collect();
    score(&service, "animals", &far);
    check("get", "/v1/models/{model}/suggest", Value::Null);
    check("post", "/v1/models/{model}/drift/acknowledge", Value::Null);

    let held_out: Value = serde_json::from_str(&json_rows(&rows(50, 8))).unwrap();
    for (method, route, body) in [
        (
            "post",
            "/v1/models/{model}/rows",
            json!({ "rows": [row], "labels": ["lynx"], "new_classes": ["lynx"] }),
        ),
        ("get", "/v1/models/{model}/changes", Value::Null),
        ("post", "/v1/models/{model}/changes/{change}/undo", Value::Null),
        ("post", "/v1/models/{model}/rows/relabel", json!({ "ids": [0], "labels": ["bird"] })),
        ("get", "/v1/models/{model}/label-issues", Value::Null),
        ("post", "/v1/models/{model}/rows/remove", json!({ "ids": [0] })),
        ("post", "/v1/models/{model}/thresholds", json!({ "coverage": 0.9, "rows": held_out["rows"] })),
    ] {
        check(method, route, body);
    }

    for (route, operations) in description["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            if example(method, route).is_some() {
                assert!(
                    checked.contains(&(method.clone(), route.clone())),
                    "{method} {route} is not checked"
                );
            }
        }
    }
    service.stop();
}
