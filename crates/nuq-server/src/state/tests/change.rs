//! Changes that a model does not accept.

use super::*;

#[test]
fn the_error_for_a_repeated_id_names_its_position() {
    let problem = "which is listed twice";
    let expected = nuq::Error::from(nuq_neighbors::Error::CannotRemove { position: 2, id: 7, problem });
    assert_eq!(Change::remove(&classifier(), &[7, 3, 7]).err(), Some(expected));
    let expected = nuq::Error::CannotRelabel { position: 2, id: 7, problem };
    assert_eq!(Change::relabel(&classifier(), &[7, 3, 7], labels(0, 3)).err(), Some(expected));
}

#[test]
fn rows_of_a_sharded_model_can_be_relabeled_but_not_inserted_or_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = nuq_io::ShardWriter::new(folder.path(), false).unwrap();
    writer.write(&rows(0, 20)).unwrap();
    writer.write(&rows(20, 40)).unwrap();
    let Labels::Classes(classes) = labels(0, 60) else { unreachable!("labels are classes") };
    let params = NuqClassifier::params().n_neighbors(5);
    let model = Model::Classifier(params.fit_shards(&writer.open().unwrap(), &classes, None).unwrap());
    let fixed = nuq::Error::from(nuq_neighbors::Error::FixedShards);
    assert_eq!(Change::insert(&model, &rows(0, 1), labels(0, 1), None).err(), Some(fixed.clone()));
    assert_eq!(Change::remove(&model, &[3]).err(), Some(fixed));
    assert!(Change::relabel(&model, &[3], labels(1, 1)).is_ok());
}
