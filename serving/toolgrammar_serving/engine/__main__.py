from toolgrammar_serving.engine.main import main

raise SystemExit(main())
