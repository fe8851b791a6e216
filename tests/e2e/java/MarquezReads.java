import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import marquez.client.MarquezClient;
import marquez.client.MarquezHttpException;
import marquez.client.models.Dataset;
import marquez.client.models.DatasetFieldId;
import marquez.client.models.DatasetId;
import marquez.client.models.DatasetVersion;
import marquez.client.models.Field;
import marquez.client.models.Job;
import marquez.client.models.JobId;
import marquez.client.models.JobVersion;
import marquez.client.models.Namespace;
import marquez.client.models.NodeId;
import marquez.client.models.Run;
import marquez.client.models.SearchFilter;
import marquez.client.models.SearchSort;
import marquez.client.models.Source;

/**
 * Calls every read method of MarquezClient for every entity of a server.
 *
 * <p>Prints one line per method with the number of successful and of failed calls, and the first errors.
 */
public final class MarquezReads {
  private static final int LIMIT = 10000;
  private static final int MAX_ERRORS = 3;

  private final MarquezClient client;
  private final Map<String, int[]> counts = new TreeMap<>();
  private final Map<String, List<String>> errors = new TreeMap<>();

  private MarquezReads(String url) {
    client = MarquezClient.builder().baseUrl(url).build();
  }

  public static void main(String[] args) {
    MarquezReads reads = new MarquezReads(args[0]);
    reads.readAll();
    reads.report();
  }

  private void readAll() {
    readLists();
    for (Namespace namespace : call("listNamespaces", List.<Namespace>of(), () -> client.listNamespaces(LIMIT, 0))) {
      String name = namespace.getName();
      call("getNamespace", null, () -> client.getNamespace(name));
      call("listDatasets", List.of(), () -> client.listDatasets(name));
      for (Dataset dataset : call("listDatasets", List.<Dataset>of(), () -> client.listDatasets(name, LIMIT, 0))) {
        readDataset(name, dataset.getName());
      }
      call("listJobs", List.of(), () -> client.listJobs(name));
      for (Job job : call("listJobs", List.<Job>of(), () -> client.listJobs(name, LIMIT, 0))) {
        readJob(name, job.getName());
      }
    }
  }

  private void readLists() {
    ZonedDateTime start = ZonedDateTime.of(1971, 1, 1, 0, 0, 0, 0, ZoneOffset.UTC);
    ZonedDateTime end = start.plusYears(100);
    call("listLineageEvents", null, client::listLineageEvents);
    for (MarquezClient.SortDirection sort : MarquezClient.SortDirection.values()) {
      call("listLineageEvents", null, () -> client.listLineageEvents(sort, LIMIT));
      call("listLineageEvents", null, () -> client.listLineageEvents(sort, end, start, LIMIT));
    }
    call("listNamespaces", null, client::listNamespaces);
    call("listSources", null, client::listSources);
    for (Source source : call("listSources", List.<Source>of(), () -> client.listSources(LIMIT, 0))) {
      call("getSource", null, () -> client.getSource(source.getName()));
    }
    call("listTags", null, client::listTags);
    call("listTags", null, () -> client.listTags(LIMIT, 0));
    call("search", null, () -> client.search("e"));
    call("search", null, () -> client.search("e", LIMIT));
    // The overloads with a filter or a sort order alone throw before they send a request.
    for (SearchFilter filter : SearchFilter.values()) {
      for (SearchSort sort : SearchSort.values()) {
        call("search", null, () -> client.search("a", filter, sort, LIMIT));
      }
    }
  }

  private void readDataset(String namespace, String name) {
    Dataset dataset = call("getDataset", null, () -> client.getDataset(namespace, name));
    call("listDatasetVersions", null, () -> client.listDatasetVersions(namespace, name));
    List<DatasetVersion> versions =
        call("listDatasetVersions", List.<DatasetVersion>of(), () -> client.listDatasetVersions(namespace, name, LIMIT, 0));
    for (DatasetVersion version : versions) {
      call("getDatasetVersion", null, () -> client.getDatasetVersion(namespace, name, version.getVersion()));
    }
    NodeId node = NodeId.of(new DatasetId(namespace, name));
    call("getLineage dataset", null, () -> client.getLineage(node));
    call("getLineage dataset", null, () -> client.getLineage(node, 2));
    readColumnLineage("getColumnLineage dataset", node);
    if (dataset != null) {
      for (Field field : dataset.getFields()) {
        DatasetFieldId id = new DatasetFieldId(namespace, name, field.getName());
        readColumnLineage("getColumnLineage field", NodeId.of(id));
      }
    }
  }

  private void readJob(String namespace, String name) {
    call("getJob", null, () -> client.getJob(namespace, name));
    List<JobVersion> versions =
        call("listJobVersions", List.<JobVersion>of(), () -> client.listJobVersions(namespace, name, LIMIT, 0));
    for (JobVersion version : versions) {
      call("getJobVersion", null, () -> client.getJobVersion(namespace, name, version.getVersion().toString()));
    }
    call("listRuns", null, () -> client.listRuns(namespace, name));
    for (Run run : call("listRuns", List.<Run>of(), () -> client.listRuns(namespace, name, LIMIT, 0))) {
      call("getRun", null, () -> client.getRun(run.getId()));
    }
    NodeId node = NodeId.of(new JobId(namespace, name));
    call("getLineage job", null, () -> client.getLineage(node));
    readColumnLineage("getColumnLineage job", node);
  }

  private void readColumnLineage(String method, NodeId node) {
    for (boolean withDownstream : new boolean[] {false, true}) {
      call(
          method,
          null,
          () -> {
            try {
              return client.getColumnLineage(node, 20, withDownstream);
            } catch (MarquezHttpException error) {
              // Marquez's answer for a node without column lineage.
              if (error.getMessage().contains("Could not find node")) {
                return null;
              }
              throw error;
            }
          });
    }
  }

  private <T> T call(String method, T fallback, Callable<T> read) {
    int[] count = counts.computeIfAbsent(method, key -> new int[2]);
    try {
      T result = read.call();
      count[0]++;
      return result;
    } catch (Exception error) {
      count[1]++;
      List<String> messages = errors.computeIfAbsent(method, key -> new ArrayList<>());
      if (messages.size() < MAX_ERRORS) {
        messages.add(error.toString().replaceAll("\\s+", " "));
      }
      return fallback;
    }
  }

  private void report() {
    counts.forEach(
        (method, count) -> {
          System.out.println(method + "\t" + count[0] + "\t" + count[1]);
          errors.getOrDefault(method, List.of()).forEach(message -> System.out.println("\t" + message));
        });
  }
}
