//! The Open Inference Protocol: metadata, JSON and binary tensors.

use nuq::{Embeddings, FittedModel};
use serde_json::{Value, json};

use crate::common::{COLUMNS, Service, embeddings, rows};

fn infer_json(values: &[f32], outputs: &[&str]) -> String {
    let outputs: Vec<Value> = outputs.iter().map(|name| json!({ "name": name })).collect();
    let shape = [values.len() / COLUMNS, COLUMNS];
    let input = json!({ "name": "embeddings", "shape": shape, "datatype": "FP32", "data": values });
    json!({ "id": "7", "inputs": [input], "outputs": outputs }).to_string()
}

fn numbers(output: &Value) -> Vec<f64> {
    output["data"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

#[test]
fn metadata_describes_the_models_and_probes_are_answered() {
    let service = Service::start();
    let server = service.get("/v2").json();
    assert_eq!((&server["name"], &server["extensions"]), (&json!("nuq"), &json!(["binary_tensor_data"])));
    for path in
        ["/v2/health/live", "/v2/health/ready", "/v2/models/sums/ready", "/v2/models/sums/versions/1/ready"]
    {
        assert_eq!(service.get(path).status, 200, "{path}");
    }
    let model = service.get("/v2/models/animals").json();
    assert_eq!(model["platform"], "nuq_classifier");
    assert_eq!(model["inputs"][0]["shape"], json!([-1, COLUMNS]));
    assert_eq!(model["inputs"][1]["shape"], json!([-1, 3]));
    let has = |name: &str| model["outputs"].as_array().unwrap().iter().any(|output| output["name"] == name);
    assert!(has("label") && has("neighbor_labels") && !has("mean"));
    let regressor = service.get("/v2/models/sums").json();
    assert_eq!(
        (&regressor["platform"], regressor["inputs"].as_array().unwrap().len()),
        (&json!("nuq_regressor"), 1)
    );
    let missing = service.get("/v2/models/none");
    assert_eq!(missing.status, 404);
    assert!(missing.protocol_error().contains("animals, sums"));
    assert_eq!(service.get("/v2/models/sums/versions/9").status, 404);
}

#[test]
fn outputs_agree_with_the_library_to_the_last_digit() {
    let service = Service::start();
    let values = rows(40, 9);
    let model = service.classifier();
    let expected = model.predict(&embeddings(&values)).unwrap();
    let names =
        ["label", "probability", "epistemic", "log_density", "accept", "neighbor_ids", "neighbor_distances"];
    let reply = service.post("/v2/models/animals/infer", infer_json(&values, &names)).json();
    assert_eq!(
        (&reply["model_name"], &reply["id"], &reply["model_version"]),
        (&json!("animals"), &json!("7"), &json!("1"))
    );
    let output = |i: usize| &reply["outputs"][i];
    assert_eq!((&output(0)["datatype"], &output(0)["shape"]), (&json!("BYTES"), &json!([40])));
    let threshold = &model.thresholds()["main"];
    for (i, prediction) in expected.iter().enumerate() {
        assert_eq!(output(0)["data"][i], expected.label(i).to_string());
        assert_eq!(numbers(output(1))[i].to_bits(), prediction.probability.to_bits());
        assert_eq!(numbers(output(2))[i].to_bits(), prediction.epistemic().to_bits());
        assert_eq!(numbers(output(3))[i].to_bits(), prediction.log_density.to_bits());
        assert_eq!(output(4)["data"][i], json!(threshold.decide(prediction) == nuq::Decision::Accept));
        for j in 0..7 {
            assert_eq!(output(5)["data"][7 * i + j], expected.neighbors().ids(i)[j]);
            let distance = expected.neighbors().sq_distances(i)[j].sqrt();
            assert_eq!(numbers(output(6))[7 * i + j].to_bits(), distance.to_bits());
        }
    }
    assert_eq!(output(5)["shape"], json!([40, 7]));
}

/// Sends a binary request, and returns the JSON part and the binary part of its response.
fn infer_binary(service: &Service, json: &Value, tensors: &[u8]) -> (Value, Vec<u8>) {
    let head = json.to_string();
    let headers = [("inference-header-content-length", head.len().to_string())];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let reply =
        service.request("POST", "/v2/models/animals/infer", &headers, &[head.as_bytes(), tensors].concat());
    assert_eq!(reply.status, 200, "{:?}", String::from_utf8_lossy(&reply.body));
    let length: usize = reply.header("inference-header-content-length").unwrap().parse().unwrap();
    (serde_json::from_slice(&reply.body[..length]).unwrap(), reply.body[length..].to_vec())
}

#[test]
fn binary_tensors_have_the_values_of_the_library() {
    let service = Service::start();
    let values = rows(11, 4);
    let model = service.classifier();
    let expected = model.predict(&embeddings(&values)).unwrap();
    let singles: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let doubles: Vec<u8> = values.iter().flat_map(|value| f64::from(*value).to_le_bytes()).collect();
    for (datatype, bytes) in [("FP32", singles), ("FP64", doubles)] {
        let parameters = json!({ "binary_data_size": bytes.len() });
        let input = json!({ "name": "embeddings", "shape": [11, COLUMNS], "datatype": datatype, "parameters": parameters });
        let outputs = json!([
            { "name": "total", "parameters": { "binary_data": true } },
            { "name": "probability", "parameters": { "binary_data": false } },
            { "name": "label", "parameters": { "binary_data": true } },
        ]);
        let (json, binary) =
            infer_binary(&service, &json!({ "inputs": [input], "outputs": outputs }), &bytes);
        assert_eq!(json["outputs"][0]["parameters"]["binary_data_size"], 88);
        for i in 0..11 {
            let total = f64::from_le_bytes(binary[8 * i..8 * i + 8].try_into().unwrap());
            assert_eq!(total.to_bits(), expected[i].total().to_bits());
            assert_eq!(numbers(&json["outputs"][1])[i].to_bits(), expected[i].probability.to_bits());
        }
        let labels: Vec<u8> = (0..11)
            .flat_map(|i| {
                let text = expected.label(i).to_string();
                [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
            })
            .collect();
        assert_eq!(binary[88..], labels);
    }
}

#[test]
fn all_outputs_are_binary_on_request() {
    let service = Service::start();
    let input =
        json!({ "name": "embeddings", "shape": [1, COLUMNS], "datatype": "FP32", "data": [rows(1, 5)] });
    let request = json!({ "inputs": [input], "parameters": { "binary_data_output": true, "neighbors": 2 } });
    let (json, binary) = infer_binary(&service, &request, b"");
    let outputs = json["outputs"].as_array().unwrap();
    assert!(outputs.iter().all(|output| output["data"].is_null()));
    let sizes: u64 =
        outputs.iter().map(|output| output["parameters"]["binary_data_size"].as_u64().unwrap()).sum();
    assert_eq!(sizes as usize, binary.len());
    let ids = outputs.iter().find(|output| output["name"] == "neighbor_ids").unwrap();
    assert_eq!((&ids["shape"], &ids["datatype"]), (&json!([1, 2]), &json!("INT64")));
    let accept = outputs.iter().find(|output| output["name"] == "accept").unwrap();
    assert_eq!((&accept["datatype"], &accept["parameters"]["binary_data_size"]), (&json!("BOOL"), &json!(1)));
}

#[test]
fn with_logits_the_predictions_are_those_of_the_network() {
    let service = Service::start();
    let (values, logits) = (rows(6, 6), rows(6, 7)[..18].to_vec());
    let model = service.classifier();
    let network = model.network(&Embeddings::new(logits.clone(), 3).unwrap()).unwrap();
    let expected = model.predict_with(&embeddings(&values), &network).unwrap();
    let request = json!({
        "inputs": [
            { "name": "embeddings", "shape": [6, COLUMNS], "datatype": "FP32", "data": values },
            { "name": "logits", "shape": [6, 3], "datatype": "FP32", "data": logits },
        ],
        "outputs": [{ "name": "label" }, { "name": "aleatoric" }, { "name": "total" }],
    });
    let reply = service.post("/v2/models/animals/infer", request.to_string()).json();
    for i in 0..6 {
        assert_eq!(reply["outputs"][0]["data"][i], expected.label(i).to_string());
        assert_eq!(numbers(&reply["outputs"][1])[i].to_bits(), expected[i].aleatoric.to_bits());
        assert_eq!(numbers(&reply["outputs"][2])[i].to_bits(), expected[i].total().to_bits());
    }
    // The only threshold was calibrated without logits.
    let request = json!({
        "inputs": request["inputs"], "outputs": [{ "name": "accept" }], "parameters": { "threshold": "main" },
    });
    let reply = service.post("/v2/models/animals/infer", request.to_string());
    assert_eq!(reply.status, 422);
    assert!(reply.protocol_error().contains("send no logits"), "{}", reply.text());
}

#[test]
fn neighbors_can_be_requested_without_predictions() {
    let service = Service::start();
    let values = rows(3, 8);
    let expected = service.classifier().neighbors_of(&embeddings(&values), 7).unwrap();
    let reply = service
        .post("/v2/models/animals/infer", infer_json(&values, &["neighbor_ids", "neighbor_labels"]))
        .json();
    let ids: Vec<u32> = (0..3).flat_map(|i| expected.ids(i).to_vec()).collect();
    assert_eq!(reply["outputs"][0]["data"], json!(ids));
    let labels: Vec<&str> = ids.iter().map(|id| ["cat", "dog, \"big\"", "bird"][*id as usize % 3]).collect();
    assert_eq!(reply["outputs"][1]["data"], json!(labels));
}

#[test]
fn concurrent_requests_get_the_results_of_the_library() {
    let service = Service::start();
    let model = service.classifier();
    std::thread::scope(|scope| {
        for i in 0..24 {
            let (service, model) = (&service, &model);
            scope.spawn(move || {
                let values = rows(1 + i % 5, 100 + i);
                let expected = model.predict(&embeddings(&values)).unwrap();
                let reply = service.post("/v2/models/animals/infer", infer_json(&values, &["total"])).json();
                let expected: Vec<u64> =
                    expected.iter().map(|prediction| prediction.total().to_bits()).collect();
                let totals: Vec<u64> =
                    numbers(&reply["outputs"][0]).iter().map(|total| total.to_bits()).collect();
                assert_eq!(totals, expected);
            });
        }
    });
}
