//! `POST /v1/models/{model}/score` and the other routes of models.

use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, Float64Array, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema};
use nuq::{Embeddings, FittedModel, Model, NuqClassifier};
use nuq_server::{Config, ModelSource};
use serde_json::{Value, json};

use crate::common::{COLUMNS, Reply, Service, embeddings, json_rows, npy, rows};

const SCORE: &str = "/v1/models/animals/score";

/// Sends a request with the header `Accept: media`. The response must be complete and without an error.
fn accept(service: &Service, path: &str, media: &str, body: &[u8]) -> Reply {
    let reply = service.request("POST", path, &[("accept", media)], body);
    assert_eq!(reply.status, 200, "{:?}", String::from_utf8_lossy(&reply.body));
    assert!(reply.is_complete);
    reply
}

fn csv(values: &[f32]) -> String {
    let line = |row: &[f32]| row.iter().map(f32::to_string).collect::<Vec<_>>().join(",") + "\n";
    values.chunks(COLUMNS).map(line).collect()
}

/// An Arrow stream with several record batches.
fn arrow(to_batch: &dyn Fn(&[f32]) -> RecordBatch, values: &[f32]) -> Vec<u8> {
    let batches: Vec<RecordBatch> = values.chunks(700 * COLUMNS).map(to_batch).collect();
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    drop(writer);
    bytes
}

/// A record batch with one column, whose values are the rows.
fn lists(values: &[f32]) -> RecordBatch {
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let values: ArrayRef = Arc::new(Float32Array::from(values.to_vec()));
    let list = FixedSizeListArray::new(item.clone(), COLUMNS as i32, values, None);
    let field = Field::new("embedding", DataType::FixedSizeList(item, COLUMNS as i32), false);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(list)]).unwrap()
}

/// A record batch with one column for each column of the rows.
fn flat(values: &[f32]) -> RecordBatch {
    let fields: Vec<Field> =
        (0..COLUMNS).map(|j| Field::new(format!("x{j}"), DataType::Float64, false)).collect();
    let column = |j: usize| -> ArrayRef {
        let column: Vec<f64> = values.chunks(COLUMNS).map(|row| f64::from(row[j])).collect();
        Arc::new(Float64Array::from(column))
    };
    RecordBatch::try_new(Arc::new(Schema::new(fields)), (0..COLUMNS).map(column).collect()).unwrap()
}

#[test]
fn all_formats_give_the_numbers_of_the_library() {
    let service = Service::start();
    let values = rows(2500, 20);
    let model = service.classifier();
    let expected = model.predict(&embeddings(&values)).unwrap();
    let threshold = &model.thresholds()["main"];
    let header = (0..COLUMNS).map(|j| format!("x{j}")).collect::<Vec<_>>().join(",") + "\n";
    let bodies = [
        ("json", json_rows(&values).into_bytes()),
        ("npy", npy(&values, "(2500, 5)")),
        ("csv", csv(&values).into_bytes()),
        ("csv with a header", (header + &csv(&values)).into_bytes()),
        ("lists", arrow(&lists, &values)),
        ("flat", arrow(&flat, &values)),
    ];
    for (name, body) in bodies {
        let reply = accept(&service, SCORE, "application/json", &body).json();
        assert_eq!((&reply["model"], &reply["version"]), (&json!("animals"), &json!(1)));
        let rows = reply["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2500, "{name}");
        for (i, (row, prediction)) in rows.iter().zip(&expected).enumerate() {
            assert_eq!(row["row"], i);
            assert_eq!(row["label"], expected.label(i).to_string(), "{name}");
            assert_eq!(row["total"].as_f64().unwrap().to_bits(), prediction.total().to_bits(), "{name}");
            assert_eq!(row["log_density"].as_f64().unwrap().to_bits(), prediction.log_density.to_bits());
            assert_eq!(row["accept"], threshold.decide(prediction) == nuq::Decision::Accept);
            assert!(row["neighbors"].is_null());
        }
    }
}

#[test]
fn responses_are_json_lines_csv_or_npz() {
    let service = Service::start();
    let values = rows(1030, 21);
    let body = npy(&values, "(1030, 5)");
    let path = "/v1/models/animals/score?neighbors=2&outputs=label,total,neighbor_ids,neighbor_distances,neighbor_labels";
    let expected = service.classifier();
    let expected = expected.predict(&embeddings(&values)).unwrap();
    let lines = accept(&service, path, "application/x-ndjson", &body);
    let rows: Vec<Value> = lines.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 1030);
    assert_eq!(rows[1029]["neighbors"].as_array().unwrap().len(), 2);
    assert_eq!(rows[1029]["neighbors"][0]["id"], expected.neighbors().ids(1029)[0]);
    let table = accept(&service, path, "text/csv", &body);
    let mut lines = table.text().lines();
    assert_eq!(
        lines.next().unwrap(),
        "row,label,total,neighbor_1_id,neighbor_1_distance,neighbor_1_label,neighbor_2_id,neighbor_2_distance,neighbor_2_label"
    );
    let dog = (0..1030).find(|&i| expected.label(i) == "dog, \"big\"").unwrap();
    let line = table.text().lines().nth(1 + dog).unwrap();
    assert!(line.starts_with(&format!("{dog},\"dog, \"\"big\"\"\",{},", expected[dog].total())), "{line}");
    let npz = accept(&service, path, "application/x-npz", &body);
    std::fs::write(service.path("scores.npz"), &npz.body).unwrap();
    let names = nuq_io::npz_names(&service.path("scores.npz")).unwrap();
    assert_eq!(names, ["row", "label", "total", "neighbor_ids", "neighbor_distances", "neighbor_labels"]);
    let file = format!("{}:total", service.path("scores.npz").display());
    let totals = nuq_io::read_targets(&file.parse().unwrap()).unwrap();
    assert!(totals.iter().zip(&expected).all(|(total, prediction)| *total == prediction.total()));
}

#[test]
fn logits_change_the_predictions_of_a_classifier_and_are_refused_by_a_regressor() {
    let service = Service::start();
    let values = rows(2, 22);
    let body = json!({ "rows": values.chunks(COLUMNS).collect::<Vec<_>>(), "logits": [[0.0, 9.0, 0.0], [9.0, 0.0, 0.0]] });
    let reply = service.post(SCORE, body.to_string()).json();
    // Classes are sorted: bird, cat, dog.
    assert_eq!((&reply["rows"][0]["label"], &reply["rows"][1]["label"]), (&json!("cat"), &json!("bird")));
    assert!(reply["rows"][0]["accept"].is_null(), "the threshold does not apply to network predictions");
    let reply = service.post("/v1/models/sums/score?neighbors=1", json_rows(&values)).json();
    let Model::Regressor(model) = nuq_io::open(&service.path("sums.nuq")).unwrap().model else {
        unreachable!()
    };
    let expected = model.predict(&embeddings(&values)).unwrap();
    assert_eq!(reply["rows"][1]["mean"].as_f64().unwrap().to_bits(), expected[1].mean.to_bits());
    let target = model.target(expected.neighbors().ids(1)[0]);
    assert_eq!(reply["rows"][1]["neighbors"][0]["target"], target);
    let reply = service.post("/v1/models/sums/score", body.to_string());
    assert_eq!(
        (reply.status, reply.error().1.as_str()),
        (422, "a regressor uses no logits: send only embeddings")
    );
}

#[test]
fn logits_must_have_one_row_for_each_row_of_embeddings() {
    let service = Service::start();
    let values = rows(2, 22);
    let logits = [0.0, 9.0, 0.0];
    for count in [1, 3] {
        let body =
            json!({ "rows": values.chunks(COLUMNS).collect::<Vec<_>>(), "logits": vec![logits; count] });
        let inputs = json!({ "inputs": [
            { "name": "embeddings", "shape": [2, COLUMNS], "datatype": "FP32", "data": values },
            { "name": "logits", "shape": [count, 3], "datatype": "FP32", "data": vec![logits; count].concat() },
        ] });
        for (path, body) in [(SCORE, body), ("/v2/models/animals/infer", inputs)] {
            let reply = service.post(path, body.to_string());
            assert_eq!(reply.status, 422, "{path}: {}", reply.text());
            let expected = format!("there are {count} rows of logits for 2 rows of embeddings");
            assert!(reply.text().contains(&expected), "{path}: {}", reply.text());
        }
    }
}

#[test]
fn empty_requests_have_empty_results() {
    let service = Service::start();
    assert_eq!(service.post(SCORE, "{\"rows\": []}").json()["rows"], json!([]));
    assert_eq!(service.post(SCORE, "[]").json()["rows"], json!([]));
    assert_eq!(service.post(SCORE, npy(&[], "(0, 5)")).json()["rows"], json!([]));
    let table = accept(&service, SCORE, "text/csv", b"x0,x1,x2,x3,x4\n");
    assert!(table.text().starts_with("row,label,") && table.text().lines().count() == 1);
}

#[test]
fn selections_that_are_not_possible_are_errors() {
    let service = Service::start();
    let body = json_rows(&rows(1, 23));
    for (query, text) in [
        ("?outputs=nothing", "nothing"),
        ("?outputs=total,total", "twice"),
        ("?outputs=mean", "this model has no output `mean`"),
        ("?neighbors=8", "the model uses 7"),
        ("?neighbors=0", "the model uses 7"),
        ("?neighbors=x", "neighbors"),
        ("?threshold=other", "`main`"),
        ("?treshold=main", "unknown field `treshold`"),
    ] {
        let reply = service.post(&format!("{SCORE}{query}"), &body);
        assert_eq!(reply.status, 422, "{query}");
        assert!(reply.error().1.contains(text), "{query}: {}", reply.text());
    }
    let reply = service.request("POST", SCORE, &[("accept", "image/png")], body.as_bytes());
    assert_eq!((reply.status, reply.error().0.as_str()), (406, "not_acceptable"));
    let reply = service.post("/v1/models/sums/score?outputs=accept", &body);
    assert!(reply.error().1.contains("the model has none"), "{}", reply.text());
}

#[test]
fn models_are_listed_described_and_downloaded() {
    let service = Service::start();
    let models = service.get("/v1/models").json();
    assert_eq!((&models[0]["name"], &models[1]["task"]), (&json!("animals"), &json!("regression")));
    let model = service.get("/v1/models/animals").json();
    assert_eq!(model["classes"], json!(["bird", "cat", "dog, \"big\""]));
    assert_eq!(
        (&model["rows"], &model["columns"], &model["n_neighbors"]),
        (&json!(300), &json!(5), &json!(7))
    );
    assert_eq!(model["thresholds"][0]["name"], "main");
    assert!(model["thresholds"][0]["statement"].as_str().unwrap().contains("90 %"));
    let file = service.get("/v1/models/animals/file");
    assert_eq!(file.body, std::fs::read(service.path("animals.nuq")).unwrap());
    assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"animals.nuq\""));
}

#[test]
fn a_csv_body_with_other_separators_has_an_error_that_names_them() {
    let service = Service::start();
    for (separator, name) in [(";", "semicolons"), ("\t", "tabs")] {
        for text in [csv(&rows(2, 1)), format!("x0,x1,x2,x3,x4\n{}", csv(&rows(2, 1)))] {
            let body = text.replace(',', separator);
            let reply = service.request("POST", SCORE, &[("content-type", "text/csv")], body.as_bytes());
            assert_eq!(reply.status, 422, "{body}");
            let expected = format!("the first line has {name} and no comma: separate the values by commas");
            assert_eq!(reply.error().1, expected, "{body}");
        }
    }
}

#[test]
fn a_first_csv_line_with_a_cell_that_is_no_number_is_not_left_out() {
    let service = Service::start();
    let reply = service.post(
        SCORE,
        "1.5,2,3,4,5.x
1,2,3,4,5
",
    );
    assert_eq!(reply.status, 422, "{}", reply.text());
    let expected = "line 1, column 4 is `5.x`, not a number: if the line is a header, remove it";
    assert_eq!(reply.error().1, expected);
}

/// pandas writes 0, 1, 2, … as the header of columns without names. The same line can also be a row of a table with few columns.
#[test]
fn the_first_line_0_1_2_is_a_header_if_it_has_at_least_ten_columns() {
    let wide = |config: &mut Config| {
        let path = config.models[0].path.with_file_name("wide.nuq");
        let values: Vec<f32> = (0..200).map(|i| (i * i % 37) as f32).collect();
        let labels: Vec<&str> = (0..20).map(|i| ["a", "b"][i % 2]).collect();
        let model = NuqClassifier::params().n_neighbors(3);
        let model = model.fit(&Embeddings::new(values, 10).unwrap(), &labels).unwrap();
        nuq_io::save(&Model::Classifier(model), &path).unwrap();
        config.models.push(ModelSource { name: "wide".to_owned(), path });
    };
    let service = Service::with(wide);
    let rows = |model: &str, body: &str| {
        let reply = service.post(&format!("/v1/models/{model}/score"), body);
        assert_eq!(reply.status, 200, "{body}: {}", reply.text());
        reply.json()["rows"].as_array().unwrap().len()
    };
    assert_eq!(rows("wide", "0,1,2,3,4,5,6,7,8,9\n9,8,7,6,5,4,3,2,1,0\n"), 1);
    assert_eq!(rows("wide", "1,2,3,4,5,6,7,8,9,10\n9,8,7,6,5,4,3,2,1,0\n"), 2);
    // With fewer columns the line can be a header or a row, so it is refused. The line `0.0,1.0,…` is a row.
    let reply = service.post(SCORE, "0,1,2,3,4\n5,4,3,2,1\n");
    assert_eq!(reply.status, 422);
    assert!(reply.error().1.contains("the first line is 0, 1, 2, …"), "{}", reply.text());
    assert_eq!(rows("animals", "0.0,1.0,2.0,3.0,4.0\n5,4,3,2,1\n"), 2);
}

#[test]
fn white_space_before_json_may_be_a_separate_chunk() {
    let service = Service::start();
    let body = json_rows(&rows(1, 1));
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let request = format!(
        "POST {SCORE} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{}{}0\r\n\r\n",
        service.address,
        chunk(&" \n".repeat(10)),
        chunk(&body)
    );
    let reply = Reply::parse(&service.raw(request.as_bytes()));
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.json(), service.post(SCORE, body).json());
}

#[test]
fn a_first_row_with_a_missing_value_is_not_a_header() {
    let service = Service::start();
    for cell in ["NA", ""] {
        let reply = service.post(SCORE, format!("1,{cell},3,4,5\n1,2,3,4,5\n"));
        assert!(reply.error().1.contains("line 1, column 1"), "{}", reply.text());
    }
}
