tapir show blocks.tapir
tapir show blocks.tapir --format json
tapir show blocks.tapir --format dot | grep -c subgraph
tapir show blocks.tapir --format html | grep -c '<rect class="body"'
tapir show blocks.tapir --format html | grep -o '<text class="op"[^<]*' | sed 's/.*>//' | sort | uniq -c | sed 's/^ *//'
