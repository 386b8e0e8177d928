//! Writes the first inputs of each target into `seeds/`: `cargo xtask fuzz seeds`. They are kept in the repository; this program is
//! needed again after a change of the model format.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use nuq_fuzz::npy::{npy, npy_in_column_order};
use nuq_fuzz::small_models;
use nuq_io::{NpzArray, OutputCompression, ParquetColumn, ParquetWriter, write_npz};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let folder = folder.join(target);
        fs::create_dir_all(&folder).expect("the folder of seeds is writable");
        fs::write(folder.join(name), bytes).expect("the folder of seeds is writable");
    };
    for (name, bytes) in small_models::model_files() {
        write("model", &name, &bytes);
    }
    for (name, params) in small_models::sharded_params() {
        let sharded = std::env::temp_dir().join(format!("nuq-seeds-{}", std::process::id()));
        small_models::write_sharded(&sharded, params);
        write("manifest", name, &fs::read(sharded.join("manifest.nuq")).expect("the manifest was written"));
        fs::remove_dir_all(&sharded).expect("a folder of this process can be removed");
    }
    write("npz", "rows-and-labels", &npz());
    write("parquet", "two-columns", &parquet());
    for (name, bytes) in arrays() {
        write("npy", &name, &bytes);
    }
    write("npy", "f4", &npy("<f4", "(2, 2)", &[0; 16]));
    write("npy", "f8", &npy(">f8", "(2,)", &[1; 16]));
    write("npy", "text", &npy("<U1", "(2,)", b"a\0\0\0b\0\0\0"));
    write("npy", "no-rows-in-column-order", &npy_in_column_order("<f4", "(0, 1152921504606846976)", &[]));
    write("npy", "members-in-column-order", &npy_in_column_order("<f4", "(2, 1, 3)", &[0; 24]));
    write("safetensors", "f32", &safetensors());
    write("table", "named", b"\0x,y,class\n1,2,cat\n3,4.5e-1,\"d,g\"\n");
    write("table", "tabs", b"\x01x\ty\r\n1\t2\r\n3\t-4\r\n");
    write("table", "gzip", &compressed_table(2, "table.csv.gz"));
    write("table", "zstd", &compressed_table(3, "table.csv.zst"));
    write("rules", "threshold", &small_models::small_rules());
    write("options", "kernel", b"gaussian");
    write("options", "names", b"train.npz:-a, \"b,c\"");
    for (name, bytes) in requests() {
        write("http", name, &bytes);
    }
    for (name, bytes) in changes() {
        write("changes", name, bytes);
    }
}

/// Arrays of every type of entries and of every kind of shape, in both orders. The target `npz` uses them as members of archives.
fn arrays() -> Vec<(String, Vec<u8>)> {
    let types = [
        ("<f2", 2),
        ("<f4", 4),
        ("<f8", 8),
        ("|i1", 1),
        ("<i2", 2),
        ("<i4", 4),
        ("<i8", 8),
        ("|u1", 1),
        ("<u2", 2),
        ("<u4", 4),
        ("<u8", 8),
        ("|b1", 1),
        ("<U2", 8),
        ("|S2", 2),
        ("|O", 8),
    ];
    let shapes = [
        ("vector", "(2,)", 2),
        ("matrix", "(2, 2)", 4),
        ("members", "(2, 1, 3)", 6),
        ("column", "(2, 1)", 2),
        ("row", "(1, 2)", 2),
        ("image", "(1, 2, 2)", 4),
        ("color-image", "(1, 1, 2, 3)", 6),
        ("five-dimensions", "(1, 1, 1, 1, 2)", 2),
    ];
    let mut arrays = vec![];
    for (at, (shape, numbers, count)) in shapes.into_iter().enumerate() {
        for (element, size) in types {
            // The later shapes are read in the same way for all types.
            if at > 2 && !matches!(element, "<f4" | "|u1") {
                continue;
            }
            let name = format!("{}-{shape}", &element[1..]);
            let entry = if element == "<U2" { b"a\0\0\0b\0\0\0".to_vec() } else { vec![1; size] };
            let values = entry.repeat(count);
            arrays.push((format!("{name}-by-column"), npy_in_column_order(element, numbers, &values)));
            arrays.push((name, npy(element, numbers, &values)));
        }
    }
    // Shapes of members and images with an empty axis or with 1 to 4 color channels. The type makes no difference.
    let limits: [&[usize]; 10] = [
        &[2, 0],
        &[0, 2, 3],
        &[2, 0, 3],
        &[2, 3, 0],
        &[1, 0, 2, 3],
        &[1, 2, 0, 3],
        &[1, 2, 2, 0],
        &[1, 2, 2, 1],
        &[1, 2, 2, 2],
        &[1, 2, 2, 4],
    ];
    for shape in limits {
        let numbers: Vec<String> = shape.iter().map(usize::to_string).collect();
        let values = vec![1; shape.iter().product()];
        arrays.push((
            format!("u1-{}", numbers.join("x")),
            npy("|u1", &format!("({})", numbers.join(", ")), &values),
        ));
    }
    // Finite values that overflow single precision.
    arrays.push(("f8-large".to_owned(), npy("<f8", "(2, 2)", &[0x7f; 32])));
    arrays.push(("f8-large-by-column".to_owned(), npy_in_column_order("<f8", "(2, 2)", &[0x7f; 32])));
    arrays
}

/// A compressed table. The first byte of the input selects the extension of the file.
fn compressed_table(extension: u8, name: &str) -> Vec<u8> {
    let compression = OutputCompression::of(name.as_ref()).expect("zstd is enabled");
    let mut input = vec![extension];
    compression
        .write(&mut input, |writer| writer.write_all(b"x,y,class\n1,2,cat\n3,4,dog\n"))
        .expect("writing to memory cannot fail");
    input
}

/// Requests that score rows. The first byte of each input selects the route, and the second one the length of the JSON text before binary tensors.
fn requests() -> Vec<(&'static str, Vec<u8>)> {
    let score = |body: &[u8]| [&[0, 0], body].concat();
    let infer = |body: &str| [&[1, 0], body.as_bytes()].concat();
    let with_tensor = |datatype: &str, tensor: &[u8]| {
        let size = tensor.len();
        let head = format!(
            r#"{{"inputs":[{{"name":"embeddings","shape":[1,2],"datatype":"{datatype}","parameters":{{"binary_data_size":{size}}}}}]}}"#
        );
        [&[2, 0], head.as_bytes(), tensor].concat()
    };
    let single = r#"{"inputs":[{"name":"embeddings","shape":[1,2],"datatype":"FP32","data":[1,2]}]"#;
    vec![
        ("json", score(b"[[1,2],[3,4]]")),
        ("json-not-finite", score(br#"{"rows":[[1,2],[3,-Infinity]]}"#)),
        ("logits", br#"``{"rows":[[1,2]],"logits":[[0.5,-1]]}"#.to_vec()),
        ("csv", score(b"1,2\n3,4\n")),
        ("csv-names", score(b"y,x\n1,2\n3,abc\n")),
        ("csv-short", score(b"1,2\n3\n")),
        ("npy", score(&npy("<f4", "(1, 2)", &[0; 8]))),
        ("npy-f8", score(&npy(">f8", "(2, 2)", &[0; 32]))),
        ("npy-f2", score(&npy("<f2", "(2, 2)", &[0; 8]))),
        ("npy-i4", score(&npy("<i4", "(1, 2)", &[1; 8]))),
        ("npy-text", score(&npy("<U1", "(1, 2)", &[65; 8]))),
        ("npy-one-dimension", score(&npy("<f4", "(2,)", &[0; 8]))),
        ("npy-three-dimensions", score(&npy("<f4", "(1, 2, 1)", &[0; 8]))),
        ("npy-columns", score(&npy("<f4", "(1, 3)", &[0; 12]))),
        ("npy-not-finite", score(&npy("<f4", "(1, 2)", &[255; 8]))),
        ("arrow", score(&arrow())),
        ("infer", infer(&format!("{single}}}"))),
        (
            "infer-outputs",
            infer(
                r#"{"id":"7","parameters":{"neighbors":2,"binary_data_output":true},"inputs":[{"name":"embeddings","shape":[2,2],"datatype":"FP64","data":[[1,2],[3,4]]},{"name":"logits","shape":[2,2],"datatype":"FP32","data":[1,2,3,4]}],"outputs":[{"name":"label"},{"name":"total","parameters":{"binary_data":false}}]}"#,
            ),
        ),
        (
            "infer-threshold",
            infer(&format!(
                r#"{single},"parameters":{{"threshold":"guard"}},"outputs":[{{"name":"accept"}},{{"name":"p_value","parameters":{{"binary_data":true}}}}]}}"#
            )),
        ),
        (
            "infer-neighbors",
            infer(&format!(
                r#"{single},"parameters":{{"neighbors":3}},"outputs":[{{"name":"neighbor_ids"}},{{"name":"neighbor_distances"}},{{"name":"neighbor_labels"}}]}}"#
            )),
        ),
        ("infer-targets", infer(&format!(r#"{single},"outputs":[{{"name":"neighbor_targets"}}]}}"#))),
        (
            "infer-not-finite",
            infer(r#"{"inputs":[{"name":"embeddings","shape":[2,2],"datatype":"FP32","data":[1,2,3,NaN]}]}"#),
        ),
        ("binary-tensor", with_tensor("FP32", &[0; 8])),
        ("binary-tensor-f64", with_tensor("FP64", &[0; 16])),
        ("binary-tensor-f16", with_tensor("FP16", &[0; 4])),
        ("binary-tensor-integers", with_tensor("INT64", &[0; 16])),
    ]
}

/// Requests that change a model. The first byte of each input selects the route.
fn changes() -> [(&'static str, &'static [u8]); 24] {
    [
        ("insert", br#"_{"rows":[[1,2]],"labels":["cat"]}"#),
        ("insert-class", br#"_{"rows":[[1,2]],"labels":["fox"],"new_classes":["fox"]}"#),
        ("insert-not-finite", br#"_{"rows":[[1,2],[3,NaN]],"labels":["cat","dog"]}"#),
        ("insert-other-labels", br#"_{"rows":[[1,2],[3,4]],"labels":[7,true]}"#),
        ("relabel", br#"`{"ids":[3],"labels":["dog"]}"#),
        ("relabel-class", br#"`{"ids":[3,4],"labels":["fox","fox"],"new_classes":["fox"]}"#),
        ("relabel-unknown", br#"`{"ids":[3,77],"labels":["dog","dog"]}"#),
        ("relabel-twice", br#"`{"ids":[3,3],"labels":["dog","cat"]}"#),
        ("relabel-other", br#"`{"ids":[3],"labels":["fox"]}"#),
        ("remove", br#"a{"ids":[0,11]}"#),
        ("remove-unknown", br#"a{"ids":[0,77]}"#),
        ("remove-all", br#"a{"ids":[0,1,2,3,4,5,6,7,8,9,10,11]}"#),
        ("remove-class", br#"a{"ids":[0,1,2,3,4,5]}"#),
        (
            "threshold",
            br#"b{"name":"t","measure":"total","coverage":0.5,"rows":[[1,2],[3,4]],"labels":["cat","dog"]}"#,
        ),
        ("threshold-density", br#"b{"measure":"density","coverage":0.9,"rows":[[0,0],[0.1,1],[0.2,2],[9,9]]}"#),
        ("threshold-epistemic", br#"b{"measure":"epistemic","false_alarm":0.25,"rows":[[0,0],[0.1,1],[0.2,2],[1e30,9]]}"#),
        ("threshold-risk", br#"b{"risk":0.9,"delta":0.9,"rows":[[0,0],[2,2],[4,4],[5,1]],"labels":["cat","dog","dog","dog"],"logits":[[2,1],[0,1],[0,1],[0,1]]}"#),
        ("threshold-risk-all", br#"b{"risk":0.4,"rows":[[0,0],[0,0],[0,0],[0,0],[0,0],[0,0],[0,0],[0,0],[5,1],[5,1],[5,1],[5,1],[5,1],[5,1]],"labels":["cat","cat","cat","cat","cat","cat","cat","cat","dog","dog","dog","dog","dog","dog"]}"#),
        ("threshold-risk-some", br#"b{"risk":0.4,"delta":0.2,"measure":"density","rows":[[0,0],[0,1],[0,2],[0,1],[0,0],[5,1],[5,2],[5,3],[90,1],[91,1],[92,1]],"labels":["cat","cat","cat","cat","cat","dog","dog","dog","cat","cat","cat"]}"#),
        ("threshold-false-alarm", br#"b{"false_alarm":0.5,"measure":"aleatoric","rows":[[0,0],[2,2],[4,4],[5,1]]}"#),
        ("threshold-sequence", br#"b["t","total",0.5,null,null,null,[[1,2],[3,4]],["cat","dog"],null]"#),
        ("suggest", br#"c{"rows":[[1,2],[3,4]]}"#),
        ("suggest-columns", br#"c{"rows":[[1,2,3]],"count":0}"#),
        ("suggest-count", br#"c{"rows":[[1,2],[1,2],[3,4],[1e6,4]],"count":3}"#),
    ]
}

/// An Arrow stream with one row of two columns.
fn arrow() -> Vec<u8> {
    let column = |value: f32| Arc::new(Float32Array::from(vec![value])) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("x", column(1.0)), ("y", column(2.0))]);
    let batch = batch.expect("the columns have equal lengths");
    let mut writer = StreamWriter::try_new(vec![], &batch.schema()).expect("writing to memory cannot fail");
    writer.write(&batch).expect("writing to memory cannot fail");
    writer.into_inner().expect("writing to memory cannot fail")
}

fn safetensors() -> Vec<u8> {
    let header = r#"{"embeddings":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#;
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 16]].concat()
}

fn npz() -> Vec<u8> {
    let mut bytes = vec![];
    let labels = ["cat".to_owned(), "dog".to_owned()];
    let arrays = [
        NpzArray::singles("embeddings", &[1.0, 2.0, 3.0, 4.0], Some(2)),
        NpzArray::strings("labels", &labels, None),
    ];
    write_npz(&mut bytes, &arrays).expect("writing to memory cannot fail");
    bytes
}

fn parquet() -> Vec<u8> {
    let mut bytes = vec![];
    let mut writer = ParquetWriter::default();
    let columns = vec![
        ("x", ParquetColumn::Numbers(vec![Some(1.0), Some(2.0)])),
        ("class", ParquetColumn::Strings(vec![Some("cat".to_owned()), None])),
    ];
    writer.append(columns, &mut bytes).expect("writing to memory cannot fail");
    writer.finish(&mut bytes).expect("writing to memory cannot fail");
    bytes
}
